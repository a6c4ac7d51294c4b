package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/server/around"
	"github.com/weirhq/weir/server/cli"
)

// prepare decides everything that is to be decided before anything is opened,
// but for a run to repeat: that is read.
func (e *embedded) prepare() error {
	fields, err := e.LocalInput(e.Program, e.getenv)
	if err != nil {
		return err
	}
	if note := cli.FlagNote(e.Program); note != "" {
		e.notes = append(e.notes, note)
	}
	if e.Again != "" {
		old, err := e.earlier(e.Again)
		if err != nil {
			return err
		}
		if fields, err = change(old, fields); err != nil {
			return err
		}
	}
	if err := decode(fields, &e.input); err != nil {
		return err
	}
	if e.input.Place == nil {
		if err := e.here(); err != nil {
			return cli.UsageError(err)
		}
	} else if err := around.Readable(e.input.Place.Folder); err != nil {
		return fmt.Errorf("run %s worked in another place: %w", e.Again, err)
	}
	if e.typed, err = typedFor(*e.input.Place, e.input.Sandbox.GPU); err != nil {
		return err
	}
	notes, err := e.typed.reach(e.input.Place)
	if err != nil {
		return err
	}
	e.notes = append(e.notes, notes...)
	if err := e.typed.refuse(*e.input.Place, e.getenv, e.data); err != nil {
		return cli.UsageError(err)
	}
	return nil
}

// here makes the current folder the place of the run.
func (e *embedded) here() error {
	folder, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("the current folder is not there any more: %w", cause(err))
	}
	q := around.Request{Folder: folder, Mounts: e.Mount, GPU: e.input.Sandbox.GPU != "", Getenv: e.getenv}
	if len(e.input.Command) > 0 {
		q.Program = e.input.Command[0]
	}
	found, err := around.Find(q)
	if err != nil {
		return err
	}
	e.input.Place = &found.Place
	e.notes = append(e.notes, found.Notes...)
	for _, v := range found.Env {
		if !slices.ContainsFunc(e.input.Env, func(have run.EnvVar) bool { return have.Name == v.Name }) {
			e.input.Env = append(e.input.Env, v)
		}
	}
	return nil
}

// earlier finds the input of a run that was kept here.
func (e *embedded) earlier(id string) (run.Input, error) {
	if !run.ValidID("run", id) {
		return run.Input{}, cli.UsageError(fmt.Errorf("--again %.100q is not the id of a run, which begins with run_", id))
	}
	var taken []string
	for _, dir := range slots(e.data) {
		if _, err := os.Stat(filepath.Join(dir, "weir.db")); err != nil {
			continue
		}
		in, err := readInput(e.ctx, dir, run.ID(id))
		switch {
		case err == nil:
			return in, nil
		case errors.Is(err, store.ErrInUse):
			taken = append(taken, dir)
		case run.CodeOf(err) != run.NotFound:
			return run.Input{}, err
		}
	}
	if len(taken) > 0 {
		return run.Input{}, run.Errorf(run.NotFound, "there is no run %s in the folders that can be read now; another weir has %s: stop it, or name that server with --server", id, strings.Join(taken, ", "))
	}
	return run.Input{}, run.Errorf(run.NotFound, "there is no run %s in %s; name the folder that has it with --data, or its server with --server", id, e.data)
}

func readInput(ctx context.Context, dir string, id run.ID) (_ run.Input, err error) {
	s, err := store.Open(ctx, store.Options{Path: dir, NoWait: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return run.Input{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := s.Run(ctx, id)
	if err != nil {
		return run.Input{}, err
	}
	if r.Input.Agent == "" {
		r.Input.Agent = r.Agent
	}
	return r.Input, nil
}

// change gives an earlier input with what is asked for now.
func change(old run.Input, now map[string]any) (map[string]any, error) {
	text, err := json.Marshal(old)
	if err != nil {
		return nil, fmt.Errorf("encoding the earlier run: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("reading the earlier run: %w", err)
	}
	if now["code"] != nil || now["command"] != nil {
		delete(fields, "code")
		delete(fields, "command")
	}
	for key, value := range now {
		had, both := fields[key].(map[string]any)
		switch value := value.(type) {
		case map[string]any:
			if both {
				maps.Copy(had, value)
				continue
			}
		case []map[string]string: // env: names replace themselves
			fields[key] = mergeEnv(old.Env, value)
			continue
		}
		fields[key] = value
	}
	return fields, nil
}

func mergeEnv(old []run.EnvVar, now []map[string]string) []run.EnvVar {
	env := slices.Clone(old)
	for _, v := range now {
		env = slices.DeleteFunc(env, func(have run.EnvVar) bool { return have.Name == v["name"] })
		env = append(env, run.EnvVar{Name: v["name"], Value: v["value"]})
	}
	return env
}

// decode turns the fields of a StartRunInput, which an input names alike, into one.
func decode(fields map[string]any, in *run.Input) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encoding the run: %w", err)
	}
	if err := json.Unmarshal(text, in); err != nil {
		return fmt.Errorf("reading the run's flags: %w", err)
	}
	return nil
}
