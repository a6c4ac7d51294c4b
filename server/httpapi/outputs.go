package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// outputs serves GET /executions/{id}/{stream}: the raw output of an execution,
// as far as it is there. It was printed by an agent: a browser is told to save
// it and never to show it.
type outputs struct {
	open OpenOutput
	log  *slog.Logger
}

func (o *outputs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, name := run.ExecutionID(r.PathValue("id")), r.PathValue("stream")
	var s run.OutputStream
	switch name {
	case "stdout":
		s = run.Stdout
	case "stderr":
		s = run.Stderr
	default:
		refuse(w, http.StatusNotFound, run.Errorf(run.NotFound, "an execution has no output %q; it has stdout and stderr", clip(name)))
		return
	}
	f, err := o.open(r.Context(), id, s)
	if err != nil {
		o.fail(w, err)
		return
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		o.fail(w, errors.Join(errors.New("the output's file is no regular file"), err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+string(id)+"."+name+`"`) // open has checked the id
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "no-store")
	http.ServeContent(progress{w}, r, "", info.ModTime(), f)
}

func (o *outputs) fail(w http.ResponseWriter, err error) {
	var known *run.Error
	if !errors.As(err, &known) {
		id := run.NewKey("err")
		o.log.Error("Serving an output failed", "id", id, "error", err)
		refuse(w, http.StatusInternalServerError, run.Errorf(run.Internal, "internal error %s", id))
		return
	}
	status := http.StatusBadRequest
	switch known.Code {
	case run.NotFound:
		status = http.StatusNotFound
	case run.Unavailable:
		status = http.StatusServiceUnavailable
	default:
	}
	refuse(w, status, known)
}

// progress cuts off a client that takes nothing for writeTimeout; the whole may
// take as long as it likes.
type progress struct{ w http.ResponseWriter }

func (p progress) Header() http.Header { return p.w.Header() }

func (p progress) WriteHeader(status int) { p.w.WriteHeader(status) }

func (p progress) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	return p.w.Write(b)
}
