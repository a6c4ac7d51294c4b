package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// What executions print is kept byte for byte, up to their output limit, in
// outputs/<session>/<execution>.stdout and .stderr of the data folder. Only the
// server's own user may enter. Both files are there from the start on: one that is
// not was deleted, or is on the server where the execution ran. A file is written before the events that show its
// bytes are committed, and is not flushed to the disk: after a power cut, unlike
// after the death of the server, it may be shorter than the events.

func (e *Engine) outputs() string { return filepath.Join(e.opts.DataDir, "outputs") }

// outputName is the file of a stream; the id is the server's own.
func outputName(id run.ExecutionID, s run.OutputStream) string {
	if s == run.Stderr {
		return string(id) + ".stderr"
	}
	return string(id) + ".stdout"
}

// countName is the file with the account of a stream that went on beyond the
// output limit: there the raw output no longer tells what was read.
func countName(id run.ExecutionID, s run.OutputStream) string { return outputName(id, s) + ".count" }

// openOutputs opens the folder of a session's outputs; fs.ErrNotExist when it
// has none.
func (e *Engine) openOutputs(id run.SessionID) (*os.Root, error) {
	if !run.ValidID("ses", string(id)) {
		return nil, fmt.Errorf("opening the outputs of session %q: it is no session id", id)
	}
	all, err := os.OpenRoot(e.outputs())
	if err != nil {
		return nil, e.noFolder(id, err)
	}
	defer func() { _ = all.Close() }() // only opened through
	dir, err := all.OpenRoot(string(id))
	return dir, e.noFolder(id, err)
}

// noFolder explains a file that somebody has put in a folder's place.
func (e *Engine) noFolder(id run.SessionID, err error) error {
	if p := new(fs.PathError); errors.As(err, &p) && p.Err.Error() == syscall.ENOTDIR.Error() { // os.Root has an error of its own
		return run.Errorf(run.Unavailable, "the raw output of session %s cannot be reached: in the server's data folder a file has the place of outputs or of outputs/%s; move it away", id, id)
	}
	return err
}

// makeOutputs opens the folder of a session's outputs and makes it if need be.
func (e *Engine) makeOutputs(id run.SessionID) (*os.Root, error) {
	if err := os.MkdirAll(filepath.Join(e.outputs(), string(id)), 0o700); err != nil {
		return nil, err
	}
	return e.openOutputs(id)
}

// removeOutputs deletes what the executions of a session printed.
func (e *Engine) removeOutputs(ctx context.Context, id run.SessionID) error {
	all, err := os.OpenRoot(e.outputs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the folder of the outputs: %w", err)
	}
	defer func() { _ = all.Close() }() // only removed through
	if err := removeTree(ctx, all, string(id)); err != nil {
		return fmt.Errorf("removing the outputs: %w", err)
	}
	return nil
}

// Outputs tells what is kept here of an execution's raw output. A stream that
// printed nothing is not listed.
func (e *Engine) Outputs(id run.SessionID, x run.ExecutionID) ([]run.Output, error) {
	dir, err := e.openOutputs(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // only looked at
	var out []run.Output
	for _, s := range []run.OutputStream{run.Stdout, run.Stderr} {
		info, err := dir.Lstat(outputName(x, s))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking at the output of execution %s: %w", x, err)
		}
		if info.Size() > 0 {
			out = append(out, run.Output{Stream: s, Bytes: info.Size()})
		}
	}
	return out, nil
}

// OpenOutput opens what an execution printed to a stream, for reading. The
// caller closes it.
func (e *Engine) OpenOutput(ctx context.Context, x run.ExecutionID, s run.OutputStream) (*os.File, error) {
	if err := checkID("exe", "execution", string(x)); err != nil {
		return nil, err
	}
	if s != run.Stdout && s != run.Stderr {
		return nil, run.Errorf(run.Invalid, "an execution has no output %q; it has STDOUT and STDERR", s)
	}
	id, err := e.store.SessionOf(ctx, x)
	if err != nil {
		return nil, err
	}
	dir, err := e.openOutputs(id)
	if err == nil {
		defer func() { _ = dir.Close() }() // only opened through
		var f *os.File
		if f, err = dir.Open(outputName(x, s)); err == nil {
			return f, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, run.Errorf(run.NotFound, "the %s of execution %s is not on this server: its file was deleted, or the execution ran on another server, which has it; the events have its text", s, x)
	}
	return nil, fmt.Errorf("opening the output of execution %s: %w", x, err)
}

// rawFiles keeps the raw output of one execution. Its streams are written by
// one goroutine each. A failure is not the run's: it is told once, and what is
// then missing is counted.
type rawFiles struct {
	id   run.ExecutionID
	make func() (*os.Root, error) // the folder of the session's outputs
	tell func(problem error)      // called once

	stdout, stderr rawFile

	mu   sync.Mutex
	dir  *os.Root // nil until the first file
	told bool
}

// rawFile is the file of one stream: always a beginning of what was printed.
type rawFile struct {
	w      io.WriteCloser
	count  *os.File
	failed bool
	lost   int64 // bytes that are not in the file
}

func (r *rawFiles) stream(s run.OutputStream) *rawFile {
	if s == run.Stderr {
		return &r.stderr
	}
	return &r.stdout
}

// begin makes the files of both streams, so that one that prints nothing is known
// to have done so.
func (r *rawFiles) begin() {
	for _, s := range []run.OutputStream{run.Stdout, run.Stderr} {
		w, err := r.create(outputName(r.id, s))
		if err != nil {
			r.report(err)
			return // what is printed is tried again
		}
		r.stream(s).w = w
	}
}

// write appends a chunk's raw bytes and, beyond the output limit, notes its account.
func (r *rawFiles) write(c sandbox.Chunk) {
	f := r.stream(c.Stream)
	if len(c.Raw) > 0 && !f.failed {
		n, err := r.append(f, c)
		f.lost += int64(len(c.Raw) - n)
		if err != nil {
			f.failed = true // what came behind a hole would stand at the wrong place
			r.report(err)
		}
	} else {
		f.lost += int64(len(c.Raw))
	}
	if c.Loss.BytesTruncated > 0 {
		if err := r.note(f, c); err != nil {
			r.report(err)
		}
	}
}

func (r *rawFiles) append(f *rawFile, c sandbox.Chunk) (int, error) {
	if f.w == nil {
		w, err := r.create(outputName(r.id, c.Stream))
		if err != nil {
			return 0, err
		}
		f.w = w
	}
	return f.w.Write(c.Raw)
}

func (r *rawFiles) create(name string) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dir == nil {
		dir, err := r.make()
		if err != nil {
			return nil, err
		}
		r.dir = dir
	}
	return r.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (r *rawFiles) report(err error) {
	r.mu.Lock()
	first := !r.told
	r.told = true
	r.mu.Unlock()
	if first {
		r.tell(err)
	}
}

// account is what a count file holds.
type account struct {
	Loss    run.Loss `json:"loss"`
	Unended bool     `json:"unended"`
}

// note writes the account over the one before. It never gets shorter: counts
// only grow, and "false" is padded.
func (r *rawFiles) note(f *rawFile, c sandbox.Chunk) error {
	b, err := json.Marshal(account{c.Loss, c.Unended})
	if err != nil {
		return fmt.Errorf("encoding an account: %w", err)
	}
	if f.count == nil {
		if f.count, err = r.create(countName(r.id, c.Stream)); err != nil {
			return err
		}
	}
	_, err = f.count.WriteAt(append(b, "  \n"...), 0)
	return err
}

// notKept gives the bytes that are missing in a stream's file.
func (r *rawFiles) notKept(s run.OutputStream) int64 { return r.stream(s).lost }

// close closes the files of an execution whose streams have ended. With its end
// committed, the accounts are in its row, and their files go.
func (r *rawFiles) close(committed bool) {
	for _, s := range []run.OutputStream{run.Stdout, run.Stderr} {
		f := r.stream(s)
		if f.w != nil {
			_ = f.w.Close() // nothing is promised about the disk
		}
		if f.count != nil {
			_ = f.count.Close()
			if committed {
				_ = r.dir.Remove(countName(r.id, s)) // else it goes with the session
			}
		}
	}
	if r.dir != nil {
		_ = r.dir.Close() // only opened through
	}
}
