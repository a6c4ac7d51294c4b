package run_test

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func TestParseWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "5": 5, "-1": -1, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
	} {
		if n, err := run.ParseWhole(text, 64); err != nil || n != want {
			t.Errorf("%s is %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "1.5", "1.0", "1e3", "0x10", "0b1", "017", "007", "1_000", "1,000", "+5", " 5", "5 ", "--5", "-", "five", "٥", "\"5\""} {
		if n, err := run.ParseWhole(text, 64); err == nil || !strings.Contains(err.Error(), "decimal digits") {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
	for text, bits := range map[string]int{"9223372036854775808": 64, "-9223372036854775809": 64, "2147483648": 32} {
		if n, err := run.ParseWhole(text, bits); err == nil || !strings.Contains(err.Error(), text+" is out of range") {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
}
