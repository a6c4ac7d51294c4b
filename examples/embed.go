// Package examples holds what the demo runs: a training script in two languages
// one that logs media, and the agents of a small research team. They are plain files, to be copied.
package examples

import (
	"embed"
	"io/fs"
)

// The training script: plain Python, and the awk twin that prints the same
// curves where there is no Python.
var (
	//go:embed iris.py
	IrisPython string
	//go:embed iris.awk
	IrisAwk string
)

// MediaPython logs one of each kind of media.
//
//go:embed media.py
var MediaPython string

//go:embed agents/*.yaml
var agents embed.FS

// Agents is the folder of agent definitions.
func Agents() fs.FS {
	sub, err := fs.Sub(agents, "agents")
	if err != nil {
		panic(err) // the path is constant and valid
	}
	return sub
}
