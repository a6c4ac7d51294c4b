//go:build linux

package local_test

import (
	"testing"

	"github.com/weirhq/weir/runtime/sandbox"
)

const childRole = "WEIR_TEST_CHILD"

func runChild() {}

func TestSmoke(t *testing.T) {
	each(t, func(t *testing.T, b backend) {
		t.Log(b.Probe(t.Context()))
		res, r := execute(t, b, shell(t, "echo hi; echo err >&2; exit 3"))
		t.Logf("%+v %q %q code %v", res, r.stdout(), r.stderr(), *res.ExitCode)
		res, r = execute(t, b, python(t, "import sys,os\nprint(sys.path, os.getcwd())\nraise ValueError('x')"))
		t.Logf("%+v %q %q", res, r.stdout(), r.stderr())
		_, err := b.Start(t.Context(), func() (s specType) { s = spec(t); s.Command = []string{"nonesuch"}; return }())
		t.Log(err)
	})
}

type specType = sandbox.Spec
