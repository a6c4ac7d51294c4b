package openai

import (
	"encoding/json"
	"maps"

	"github.com/weirhq/weir/runtime/run"
)

// callDelta is a piece of a call.
type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// head says which call it is.
type head struct {
	index    *int
	id, name string
}

// call adds a piece of a call. Servers differ: the index may be missing or always
// the same, the id may be there once, always or never, and a call may come whole.
func (a *completion) call(d callDelta) {
	p := a.callOf(d)
	if p == nil {
		p = a.part()
		p.call = &head{index: d.Index}
	}
	if p.call.id == "" {
		p.call.id = d.ID
	}
	if p.call.name == "" {
		p.call.name = d.Function.Name
	}
	p.text.WriteString(plain(d.Function.Arguments)) // an object too
}

// callOf finds the call that a piece goes on with; nil: it begins one.
func (a *completion) callOf(d callDelta) *piece {
	var last, same *piece
	for _, p := range a.parts {
		if p.call == nil {
			continue
		}
		last = p
		if d.Index != nil && p.call.index != nil && *d.Index == *p.call.index || d.Index == nil && d.ID != "" && d.ID == p.call.id {
			same = p
		}
	}
	if d.Index == nil && same == nil && d.Function.Name == "" { // nothing says whose it is
		same = last
	}
	if same != nil && d.ID != "" && same.call.id != "" && d.ID != same.call.id && d.Function.Name != "" {
		return nil // the same index for another call
	}
	return same
}

// freeID makes an id that no other call of the conversation has.
func (a *completion) freeID(id string) string {
	if id == "" || a.used[id] {
		id = run.NewKey("call")
	}
	a.used[id] = true
	return id
}

// details are what OpenRouter says of a reasoning in pieces: those with one index
// and type are one.
type details struct {
	all []map[string]json.RawMessage
}

func (d *details) add(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return
	}
	if len(d.all) > 0 && !null(fields["index"]) {
		last := d.all[len(d.all)-1]
		if string(last["index"]) == string(fields["index"]) && string(last["type"]) == string(fields["type"]) {
			for _, name := range []string{"text", "summary", "data"} {
				if piece := plain(fields[name]); piece != "" {
					whole, err := json.Marshal(plain(last[name]) + piece)
					if err == nil {
						last[name] = whole
					}
				}
				delete(fields, name)
			}
			maps.DeleteFunc(fields, func(_ string, v json.RawMessage) bool { return null(v) })
			maps.Copy(last, fields)
			return
		}
	}
	d.all = append(d.all, fields)
}

func (d *details) list() []json.RawMessage {
	var list []json.RawMessage
	for _, fields := range d.all {
		if raw, err := json.Marshal(fields); err == nil {
			list = append(list, raw)
		}
	}
	return list
}
