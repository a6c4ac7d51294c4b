package engine

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// fullDisk has room for some bytes, and gets room again later.
type fullDisk struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) > d.room {
		n, _ := d.Buffer.Write(b[:d.room])
		d.room = 1 << 20
		return n, errFull
	}
	d.room -= len(b)
	return d.Buffer.Write(b)
}

func (d *fullDisk) Close() error { return nil }

// The file stays a beginning of what was printed: what comes behind a hole is
// counted and not written, though there may be room again.
func TestAFullDiskIsCountedAndToldOnce(t *testing.T) {
	t.Parallel()
	d := &fullDisk{room: 10}
	told := 0
	r := &rawFiles{tell: func(err error) {
		told++
		if !errors.Is(err, errFull) {
			t.Errorf("told %v", err)
		}
	}}
	r.stdout.w = d
	for range 4 {
		r.write(sandbox.Chunk{Stream: run.Stdout, Raw: []byte("seven!\n")})
	}
	r.close(true)
	if d.String() != "seven!\nsev" || r.notKept(run.Stdout) != 18 || r.notKept(run.Stderr) != 0 || told != 1 {
		t.Errorf("kept %q, %d missing, told %d times", d.String(), r.notKept(run.Stdout), told)
	}
}
