package sandbox

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traced opens the span of an execution; finish closes it. One span stands for
// one execution, also for one that never started.
func traced(ctx context.Context, t trace.Tracer, backend string, spec Spec) (context.Context, func(Result, error)) {
	if t == nil {
		return ctx, func(Result, error) {}
	}
	ctx, span := t.Start(ctx, "sandbox.execute", trace.WithAttributes(
		attribute.String("sandbox.backend", backend),
		attribute.Int("sandbox.code_chars", len([]rune(spec.Code))),
		attribute.Float64("sandbox.timeout_s", spec.Limits.Timeout.Seconds()),
	))
	return ctx, func(r Result, err error) {
		if r.ExitCode != nil {
			span.SetAttributes(attribute.Int("sandbox.returncode", *r.ExitCode))
		} else if n := signalNumber(r.Signal); n > 0 {
			span.SetAttributes(attribute.Int("sandbox.returncode", 128+n))
		}
		span.SetAttributes(attribute.Float64("sandbox.elapsed_s", r.Elapsed.Seconds()))
		switch {
		case err != nil:
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		case r.IsError():
			span.SetStatus(codes.Error, fmt.Sprintf("the execution ended as %s", r.Class))
		}
		span.End()
	}
}

// signalNames are the signals with the same number on every platform.
var signalNames = [...]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT",
	8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
}

func signalNumber(name string) int {
	for n, s := range signalNames {
		if s != "" && s == name {
			return n
		}
	}
	return 0
}
