package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/textfile"
)

// Connection is how a command finds its server. The tags are read by the
// command line; setting names the environment variable, section the part of the
// configuration file.
type Connection struct {
	Server    string `help:"URL of the server; empty: http://127.0.0.1:8080, but for run none: the command runs here." setting:"WEIR_SERVER" section:"client" placeholder:"URL"`
	Token     string `help:"Token of the server. Other users of this machine can see it here; rather set WEIR_TOKEN or --token-file." placeholder:"TOKEN"`
	TokenFile string `help:"File with the token of the server." setting:"WEIR_TOKEN_FILE" section:"client" placeholder:"FILE"`
	JSON      bool   `name:"json" help:"Print JSON with the API's field names: one document, or one event per line."`
}

// client makes the client of a command.
func (o *Connection) client(i *IO) (*Client, error) {
	token, err := o.token(i.Getenv)
	if err != nil {
		return nil, err
	}
	return NewClient(Options{Server: o.Server, Token: token, Notice: i.Notice})
}

// maxToken bounds a token's file, in bytes.
const maxToken = 64 << 10

func (o *Connection) token(getenv func(string) string) (string, error) {
	env := getenv("WEIR_TOKEN")
	switch {
	case o.Token != "" && o.TokenFile != "":
		return "", usagef("--token and --token-file are both set; set one of them")
	case o.Token != "":
		return o.Token, nil
	case o.TokenFile == "":
		return env, nil
	case env != "":
		return "", usagef("WEIR_TOKEN and --token-file %s are both set; set one of them", o.TokenFile)
	}
	data, err := textfile.Read(o.TokenFile, maxToken)
	if err != nil {
		return "", usagef("--token-file %s: %w", o.TokenFile, bare(err))
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", usagef("--token-file %s is empty", o.TokenFile)
	}
	return token, nil
}

// document prints one JSON document.
func (i *IO) document(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	return i.jsonLine(data)
}

func (i *IO) jsonLine(data []byte) error {
	_, err := i.Out.Write(append(cleanJSON(data), '\n'))
	return err
}

// print writes to stdout.
func (i *IO) print(format string, args ...any) error {
	_, err := fmt.Fprintf(i.Out, format, args...)
	return err
}

// list is the form of a list in JSON: the nodes as the server sent them.
type list struct {
	Nodes     []json.RawMessage `json:"nodes"`
	EndCursor *string           `json:"endCursor"`
	HasMore   bool              `json:"hasMore"`
}

// jsonView prints each event as a line of JSON.
type jsonView struct {
	out  *IO
	fail error
}

func (v *jsonView) event(e *Event) {
	if v.fail == nil {
		v.fail = v.out.jsonLine(e.Raw)
	}
}

func (v *jsonView) Settle()           {}
func (v *jsonView) Failed() error     { return v.fail }
func (v *jsonView) Output(e *Event)   { v.event(e) }
func (v *jsonView) Points(e *Event)   { v.event(e) }
func (v *jsonView) State(e *Event)    { v.event(e) }
func (v *jsonView) Warning(e *Event)  { v.event(e) }
func (v *jsonView) Question(e *Event) { v.event(e) }
func (v *jsonView) Other(e *Event)    { v.event(e) }

// missing turns an id that is neither a run's nor a session's into an error.
func missing(id string) error {
	return run.Errorf(run.NotFound, "there is nothing with the id %q; a run's begins with run_, a session's with ses_: weir runs and weir sessions list them", clip(oneLine(id), 100))
}

// bare drops the operation and the path of a file error: the message names them.
func bare(err error) error {
	if p, ok := err.(*os.PathError); ok { //nolint:errorlint // os functions give it unwrapped
		return p.Err
	}
	return err
}
