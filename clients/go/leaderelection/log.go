package leaderelection

import (
	"context"
	"log/slog"
	"slices"
)

// withAttrs adds the attributes of a logger to each record. klog's own handler loses them, and then no line would name its
// Lease.
type withAttrs struct {
	slog.Handler
	attrs []slog.Attr
}

func (h withAttrs) Handle(ctx context.Context, record slog.Record) error {
	record = record.Clone()
	record.AddAttrs(h.attrs...)
	return h.Handler.Handle(ctx, record)
}

func (h withAttrs) WithGroup(name string) slog.Handler {
	return withAttrs{h.Handler.WithGroup(name), h.attrs}
}

func (h withAttrs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withAttrs{h.Handler, slices.Concat(h.attrs, attrs)}
}
