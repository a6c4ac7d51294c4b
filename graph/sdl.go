package graph

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.graphqls
var schemas embed.FS

// SDL is the schema in GraphQL's schema language, as the server serves it.
func SDL() (string, error) {
	names, err := fs.Glob(schemas, "*.graphqls")
	if err != nil {
		return "", fmt.Errorf("listing the schema: %w", err)
	}
	var b strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(schemas, name)
		if err != nil {
			return "", fmt.Errorf("reading the schema: %w", err)
		}
		b.Write(text)
	}
	return b.String(), nil
}
