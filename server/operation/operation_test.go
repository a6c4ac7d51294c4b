package operation

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thirsty is a connection that takes a few bytes until each deadline, then none.
type thirsty struct {
	net.Conn
	sips int
	got  []byte
}

func (c *thirsty) SetWriteDeadline(time.Time) error { return nil }

func (c *thirsty) Write(p []byte) (int, error) {
	if c.sips == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	c.sips--
	n := min(3, len(p))
	c.got = append(c.got, p[:n]...)
	return n, os.ErrDeadlineExceeded
}

// A deadline that passed with progress is no stall; one without is.
func TestProgressCounts(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{1, 4, 100} {
		c := &thirsty{sips: 10}
		p := Progress{W: c, SetDeadline: c.SetWriteDeadline, Timeout: time.Second, Piece: piece, Resumes: true}
		n, err := p.Write([]byte("0123456789"))
		if n != 10 || err != nil || string(c.got) != "0123456789" {
			t.Errorf("with progress, pieces of %d: %d, %v, %q", piece, n, err, c.got)
		}
	}
	c := &thirsty{sips: 2}
	n, err := Progress{W: c, SetDeadline: c.SetWriteDeadline, Timeout: time.Second, Piece: 100, Resumes: true}.Write([]byte("0123456789"))
	if n != 6 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without: %d, %v", n, err)
	}
	c = &thirsty{sips: 10}
	n, err = Progress{W: c, SetDeadline: c.SetWriteDeadline, Timeout: time.Second, Piece: 100}.Write([]byte("0123456789"))
	if n != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a writer that cannot go on: %d, %v", n, err)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	g := NewGate(2)
	first, problem := g.Enter()
	if problem != "" {
		t.Fatal(problem)
	}
	second, _ := g.Enter()
	if _, problem := g.Enter(); problem == "" {
		t.Error("a third one comes in")
	}
	first()
	first() // counts once
	third, problem := g.Enter()
	if problem != "" {
		t.Error(problem)
	}
	if _, problem := g.Enter(); problem == "" {
		t.Error("leaving twice made room for two")
	}
	g.Close()
	second()
	if _, problem := g.Enter(); problem == "" {
		t.Error("a closed gate lets somebody in")
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		g.Wait()
	}()
	select {
	case <-left:
		t.Error("Wait does not wait")
	default:
	}
	third()
	<-left
}

func TestAppendPayload(t *testing.T) {
	t.Parallel()
	data := json.RawMessage(`{"a":1}`)
	for want, r := range map[string]*graphql.Response{
		`x{"data":{"a":1}}`:                            {Data: data},
		`x{"errors":[{"message":"m"}],"data":{"a":1}}`: {Data: data, Errors: gqlerror.List{{Message: "m"}}},
		`x{"errors":[{"message":"m"}],"data":null}`:    {Errors: gqlerror.List{{Message: "m"}}},
		"x{\"data\":\"\uFFFD\"}":                       {Data: json.RawMessage("\"\xff\"")},
	} {
		got, err := AppendPayload([]byte("x"), r)
		if string(got) != want || err != nil {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
	if _, err := AppendPayload(nil, &graphql.Response{Data: data, Extensions: map[string]any{"f": func() {}}}); err == nil {
		t.Error("what cannot be encoded is no error")
	}
}
