package pricebook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// maxYAML bounds a file in Weir's own format, in bytes.
const maxYAML = 4 << 20

// readFile reads a price file of either format. A JSON object is LiteLLM's,
// unless it has the sections of Weir's own.
func readFile(name string, data []byte) (*file, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	isJSON := strings.EqualFold(filepath.Ext(name), ".json")
	if isJSON || (bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(data)) {
		var own struct{ Models, Compute, Providers json.RawMessage }
		if json.Unmarshal(data, &own) != nil || (own.Models == nil && own.Compute == nil && own.Providers == nil) {
			return readLiteLLM(name, data)
		}
	}
	if len(data) > maxYAML {
		return nil, Faults{{File: name, Text: fmt.Sprintf("the file is larger than %d MiB", maxYAML>>20)}}
	}
	return readYAML(name, data)
}
