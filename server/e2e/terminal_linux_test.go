package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a terminal with a program in it.
type pty struct {
	*exec.Cmd
	master *os.File
	seen   logBuffer
	read   chan struct{} // closed when nothing more comes
}

// openTerminal makes both ends of a terminal of a size.
func openTerminal(t *testing.T, columns, rows uint16) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		need(t, false, fmt.Sprintf("a terminal (/dev/ptmx: %v)", err))
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// inTerminal starts weir in a terminal of its own.
func (p *project) inTerminal(columns, rows uint16, args ...string) *pty {
	p.t.Helper()
	master, slave := openTerminal(p.t, columns, rows)
	s := &pty{Cmd: exec.Command(binary, args...), master: master, read: make(chan struct{})}
	s.Dir, s.Env = p.dir, p.env
	s.Stdin, s.Stdout, s.Stderr = slave, slave, slave
	s.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Setsid: true, Setctty: true}
	err := s.Start()
	_ = slave.Close() // weir has its own
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(s.read)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			_, _ = s.seen.Write(b[:n])
			if err != nil { // EIO once the last one has closed it
				return
			}
		}
	}()
	p.t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
		_ = master.Close()
		<-s.read
	})
	return s
}

// screen plays what was printed and gives the lines that a user sees. It knows
// what weir prints: text, \r, \n, colours, cursor up and erase below.
func screen(printed string, columns int) []string {
	lines := [][]rune{nil}
	row, col := 0, 0
	runes := []rune(printed)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '\r':
			col = 0
		case '\n':
			if row++; row == len(lines) {
				lines = append(lines, nil)
			}
		case '\x1b':
			j := i + 2
			for runes[j] < '@' {
				j++
			}
			n := 1
			_, _ = fmt.Sscanf(string(runes[i+2:j]), "%d", &n)
			switch runes[j] {
			case 'A':
				row = max(row-n, 0)
			case 'J':
				lines = append(lines[:row:row], lines[row][:min(col, len(lines[row]))])
			}
			i = j
		default:
			if col == columns {
				col = 0
				if row++; row == len(lines) {
					lines = append(lines, nil)
				}
			}
			for len(lines[row]) <= col {
				lines[row] = append(lines[row], ' ')
			}
			lines[row][col] = r
			col++
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(l)
	}
	return out
}

// On a terminal the output scrolls over a footer, which is taken away at the end.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	const script = `i=0; while [ $i -lt 40 ]; do echo "{\"step\":$i,\"metrics\":{\"loss\":$i,\"acc\":0.5}}"; i=$((i+1)); done
printf '\r10%%\r20%%' >&2; while [ ! -e "$STOP" ]; do sleep 0.05; done; printf '\r100%%\n' >&2; echo '{"log":{"type":"table","step":7,"key":"val/rows","data":{"columns":["a"],"rows":[[1]]}}}'; echo last`
	for name, c := range map[string]struct {
		columns int
		env     []string
		footer  []string // on the screen while it runs, from below; nil: there is none
		color   bool
		flags   []string
		metrics bool // their lines scroll
		media   bool
	}{
		"80 columns":  {80, []string{"TERM=xterm-256color"}, []string{"acc                       0.5  ▁▁▁", "loss                       39  ▁▁", "train_running  0:0", "20%"}, true, nil, false, false},
		"200 columns": {200, []string{"TERM=xterm-256color"}, []string{"loss                       39  ▁▁", "train_running  0:0", "20%"}, true, nil, false, false},
		"30 columns":  {30, []string{"TERM=xterm-256color"}, []string{"acc                   0.5", "loss                   39", "train_running  0:0", "20%"}, true, nil, false, false},
		"no colour":   {80, []string{"TERM=xterm", "NO_COLOR=1", "LANG=C"}, []string{"acc                       0.5  ___", "loss                       39  __", "train_running  0:0", "20%"}, false, nil, false, false},
		"dumb":        {80, []string{"TERM=dumb"}, nil, false, nil, true, false},
		"raw":         {80, []string{"TERM=xterm"}, []string{"acc "}, true, []string{"--raw"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, "work")
			p.env = append(p.env, c.env...)
			s := p.inTerminal(uint16(c.columns), 24, append(append([]string{"run"}, c.flags...), "--env", "STOP=stop", "--", "sh", "-c", script)...)
			var lines []string
			eventually(t, 30*time.Second, "everything is shown", func() error {
				lines = screen(s.seen.String(), c.columns)
				if c.footer == nil { // the streams have no common order
					if all := strings.Join(lines, "\n"); !strings.Contains(all, "20%") || !strings.Contains(all, `"step":39`) {
						return fmt.Errorf("there is %q", all)
					}
					return nil
				}
				for i, want := range c.footer {
					if n := len(lines) - 1 - i; n < 0 || !strings.HasPrefix(lines[n], want) {
						return fmt.Errorf("from below: no %q in\n%s", want, strings.Join(lines[max(0, len(lines)-8):], "\n"))
					}
				}
				return nil
			})
			p.put("stop", "")
			select {
			case <-s.read:
			case <-time.After(30 * time.Second):
				t.Fatal(errors.New("it does not end"))
			}
			printed := s.seen.String()
			lines = screen(printed, c.columns)
			text := strings.Join(lines, "\n")
			for _, line := range lines {
				if strings.Contains(line, "train_running  ") || strings.Contains(line, "▁") {
					t.Errorf("the footer is still there:\n%s", text)
				}
			}
			flat := strings.Join(lines, "")
			says(t, "the screen", flat, "100%", "last", "logged table val/rows at step 7 (1 row)", "ended: DONE COMPLETED", "exit code 0", "loss last 39")
			for line, want := range map[string]bool{
				`{"step":0,"metrics":{"loss":0,"acc":0.5}}`: c.metrics, `{"step":39,"metrics":{"loss":39,"acc":0.5}}`: c.metrics,
				`{"log":{"type":"table"`: c.media,
			} {
				if got := strings.Contains(flat, line); got != want {
					t.Errorf("it shows %s: %v, want %v, in\n%s", line, got, want, text)
				}
			}
			if got := strings.Contains(printed, "\x1b[36m") || strings.Contains(printed, "\x1b[2m"); got != c.color {
				t.Errorf("there is colour: %v, want %v", got, c.color)
			}
			if c.footer == nil && strings.Contains(printed, "\x1b") {
				t.Errorf("there are escape sequences: %q", printed)
			}
			if err := s.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
