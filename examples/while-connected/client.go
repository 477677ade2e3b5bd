// Works only while this process leads, according to `hustings sidecar --while-connected`.
//
// The process exits when it no longer leads, and the kubelet starts its container again. The kernel closes the connection
// only after every goroutine has ended, so no work is left when another replica leads.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"strings"
	"time"
)

func work(token uint64) {
	for range time.Tick(100 * time.Millisecond) {
		log.Print("working, token ", token)
	}
}

func main() {
	sidecar := flag.String("sidecar", "http://127.0.0.1:4040", "the address of the sidecar")
	// After a longer silence another replica may lead.
	silence := flag.Duration("silence", 5*time.Second, "the lease duration minus the renew deadline")
	flag.Parse()
	silent := time.AfterFunc(*silence, func() { log.Fatal("the sidecar is silent") })
	stream, err := http.Get(*sidecar + "/term")
	if err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); silent.Reset(*silence) {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); {
		case field == "event" && value != "leading":
			log.Fatal(value)
		case field == "data":
			var term struct{ Token uint64 }
			if err := json.Unmarshal([]byte(value), &term); err != nil {
				log.Fatal(err)
			}
			go work(term.Token)
		}
	}
	log.Fatal("the stream has ended: ", stream.Status)
}
