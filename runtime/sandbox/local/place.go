package local

import (
	"strings"

	"github.com/weirhq/weir/runtime/sandbox"
)

// pathFirst is PATH with the folders of the user's own place in front.
func pathFirst(spec sandbox.Spec, path string) string {
	if spec.Place == nil || len(spec.Place.Path) == 0 {
		return path
	}
	return strings.Join(spec.Place.Path, ":") + ":" + path
}

func devices(spec sandbox.Spec) []string {
	if spec.Place == nil {
		return nil
	}
	return spec.Place.Devices
}
