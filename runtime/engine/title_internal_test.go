package engine

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func TestTitleFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   run.Input
		want string
	}{
		{run.Input{Prompt: "\n  look around \nthen decide"}, "look around"},
		{run.Input{Prompt: "the prompt", Command: []string{"true"}}, "the prompt"},
		{run.Input{Command: []string{"python3", "train.py", "--lr", "0.01"}}, "python3 train.py --lr 0.01"},
		{run.Input{Command: []string{"sh", "-c", "echo a\necho b"}}, "sh -c echo a"},
		{run.Input{Code: "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\n# Train the iris model #\nimport json"}, "Train the iris model"},
		{run.Input{Code: "# %% Load\nimport json"}, "Load"},
		{run.Input{Code: "# ======\n# After a rule\n"}, "After a rule"},
		{run.Input{Code: "\ufeff\n\"\"\"Fits a line.\n\nMore.\"\"\"\nimport json"}, "Fits a line."},
		{run.Input{Code: "import json\n# not a heading"}, "script"},
		{run.Input{Code: "#\n#---\n"}, "script"},
		{run.Input{Code: "''''''"}, "script"},
		{run.Input{}, "script"},
		{run.Input{Prompt: strings.Repeat("ä", 50)}, strings.Repeat("ä", 40)},
		{run.Input{Command: []string{"echo", "\xff"}}, "echo \uFFFD"},
	} {
		c.in.Agent = "script"
		if got := titleFor(c.in); got != c.want {
			t.Errorf("the title of %+v is %q, not %q", c.in, got, c.want)
		}
	}
}

func TestCheckTitle(t *testing.T) {
	t.Parallel()
	for title, good := range map[string]bool{"": true, "fine": true, strings.Repeat("a", maxName): true, strings.Repeat("a", maxName+1): false, "\xff": false, "a\x00": false} {
		if err := checkTitle(run.StartRequest{Title: title}); (err == nil) != good || err != nil && run.CodeOf(err) != run.Invalid {
			t.Errorf("title %.20q: %v", title, err)
		}
	}
	plain, errPlain := payloadHash(run.StartRequest{})
	named, errNamed := payloadHash(run.StartRequest{Title: "x"})
	if errPlain != nil || errNamed != nil || plain == named {
		t.Errorf("the same hash without and with a title, %v %v", errPlain, errNamed)
	}
	id := run.NewSessionID()
	if err := checkTitle(run.StartRequest{Title: "x", Session: id}); run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), string(id)) {
		t.Errorf("a title with a session: %v", err)
	}
}
