// Works only while this process leads, beside `hustings sidecar --while-connected`.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

func work(token uint64, stop, stopped chan struct{}) {
	defer close(stopped)
	for {
		select {
		case <-stop:
			fmt.Println("stopped")
			return
		case <-time.After(100 * time.Millisecond):
			fmt.Println("working, token", token)
		}
	}
}

func stand(sidecar string, silence time.Duration) error {
	stream, err := http.Get(sidecar + "/term")
	if err != nil {
		return err
	}
	// The last of the deferred calls: it is how the sidecar learns that the work has ended.
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		return errors.New(stream.Status)
	}
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stream.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for event := ""; ; {
		select {
		case line, open := <-lines:
			field, value, _ := strings.Cut(line, ": ")
			switch {
			case !open:
				return errors.New("the stream has ended")
			case field == "event":
				event = value
			case field == "data" && event == "leading":
				var term struct{ Token uint64 }
				if err := json.Unmarshal([]byte(value), &term); err != nil {
					return err
				}
				stop, stopped := make(chan struct{}), make(chan struct{})
				defer func() { close(stop); <-stopped }()
				go work(term.Token, stop, stopped)
			case field == "data": // stopping
				return nil
			}
		case <-time.After(silence):
			return errors.New("the sidecar is silent")
		}
	}
}

func main() {
	sidecar := cmp.Or(os.Getenv("SIDECAR"), "http://127.0.0.1:4040")
	// The lease duration minus the renew deadline: after a longer silence another replica may lead.
	silence, err := time.ParseDuration(cmp.Or(os.Getenv("SILENCE"), "5") + "s")
	for ; err == nil; time.Sleep(time.Second) {
		if err := stand(sidecar, silence); err != nil {
			fmt.Println("disconnected:", err)
		}
	}
	panic(err)
}
