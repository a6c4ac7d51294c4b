// Package web holds the built pages: the dashboard (index.html) and the
// playground (playground.html) with their assets.
//
// The build in dist is committed, so that building Weir needs Go alone. Names
// under assets/ carry a hash of their content and may be cached for ever;
// BUILD.json says what the build was made from, and a test of this package
// fails when the sources have moved on.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var files embed.FS

// Dist gives the built files, rooted at the folder that holds index.html.
func Dist() fs.FS {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		panic("web: " + err.Error()) // "dist" is a valid path: cannot happen
	}
	return dist
}
