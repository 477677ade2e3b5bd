package testkit

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Report appends to the file, 200 times a second, that this process leads, as long as leads returns true. Each report has
// the clock before and after the question: the process led at an instant in between. Report never returns.
func Report(path, identity string, leads func() (term string, ok bool)) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	for ; ; time.Sleep(5 * time.Millisecond) {
		before := boottimeMicros()
		term, ok := leads()
		after := boottimeMicros()
		if ok {
			// One write, which other processes do not interrupt.
			if _, err := fmt.Fprintf(file, "%d %d %s/%s\n", before, after, identity, term); err != nil {
				panic(err)
			}
		}
	}
}

// A Reign is how long one term of one process was seen to last, in microseconds.
type Reign struct {
	Term string
	// FirstAt is the latest instant at which it may have begun, and LastAt is the earliest at which it may have ended.
	FirstAt, LastAt int64
}

// Reigns reads the reports of all processes, and fails the test if two of them led at once. It returns the terms in
// order.
func Reigns(t testing.TB, path string) []Reign {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	byTerm := map[string]*Reign{}
	// A process may be in the middle of the last line.
	for line := range strings.Lines(string(text[:bytes.LastIndexByte(text, '\n')+1])) {
		var before, after int64
		var term string
		if _, err := fmt.Sscan(line, &before, &after, &term); err != nil {
			t.Fatalf("%s: %q", err, line)
		}
		reign := byTerm[term]
		if reign == nil {
			reign = &Reign{Term: term, FirstAt: after}
			byTerm[term] = reign
		}
		// A term is never resumed, so the process led from its first report to its last one.
		reign.LastAt = max(reign.LastAt, before)
	}
	var reigns []Reign
	for _, reign := range byTerm {
		reigns = append(reigns, *reign)
	}
	slices.SortFunc(reigns, func(a, b Reign) int { return cmp.Compare(a.FirstAt, b.FirstAt) })
	for at := 1; at < len(reigns); at++ {
		for _, earlier := range reigns[:at] {
			if earlier.LastAt > reigns[at].FirstAt {
				t.Errorf("%s led until %d, but %s led from %d on", earlier.Term, earlier.LastAt, reigns[at].Term, reigns[at].FirstAt)
			}
		}
	}
	return reigns
}

// Leader returns the identity of the last process that led, as far as the reports tell.
func Leader(t testing.TB, path string) string {
	reigns := Reigns(t, path)
	if len(reigns) == 0 {
		return ""
	}
	last := slices.MaxFunc(reigns, func(a, b Reign) int { return cmp.Compare(a.LastAt, b.LastAt) })
	identity, _, _ := strings.Cut(last.Term, "/")
	return identity
}

func boottimeMicros() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	return now.Nano() / 1000
}
