package httpapi

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirhq/weir/server/ws"
)

// metrics serves the process's and the transport's counters for Prometheus.
func (s *Server) metrics() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string, read func(ws.Counts) int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(read(s.ws.Counts())) }))
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_ws_connections", Help: "Open WebSocket connections."},
		func() float64 { return float64(s.ws.Counts().Open) }))
	counter("weir_ws_accepted_total", "WebSocket connections accepted.", func(c ws.Counts) int64 { return c.Accepted })
	counter("weir_ws_stalled_total", "Connections cut because the client took nothing until the write deadline.", func(c ws.Counts) int64 { return c.Stalled })
	counter("weir_ws_silent_total", "Connections cut because the client gave no sign of life.", func(c ws.Counts) int64 { return c.Silent })
	counter("weir_ws_frames_total", "Frames written to WebSocket clients.", func(c ws.Counts) int64 { return c.Frames })
	counter("weir_ws_bytes_total", "Bytes written to WebSocket clients, without frame headers.", func(c ws.Counts) int64 { return c.Bytes })
	s.streams.register(reg)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// register adds the counters of event streams.
func (s *streams) register(reg *prometheus.Registry) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_sse_streams", Help: "Open event streams."},
		func() float64 { return float64(s.open.Load()) }))
	for _, c := range []struct {
		name, help string
		count      *atomic.Int64
	}{
		{"weir_sse_accepted_total", "Event streams begun.", &s.accepted},
		{"weir_sse_stalled_total", "Event streams cut because the client took nothing until the write deadline.", &s.stalled},
		{"weir_sse_messages_total", "Messages and comments written to event streams.", &s.messages},
		{"weir_sse_bytes_total", "Bytes written to event streams.", &s.bytes},
	} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: c.name, Help: c.help},
			func() float64 { return float64(c.count.Load()) }))
	}
}
