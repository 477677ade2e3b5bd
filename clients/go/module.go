package hustings

import (
	_ "embed" // the module
	"sync"

	"hustings.io/go/internal/core"
)

// module is the core of the Rust library as a WebAssembly module: see docs/abi.md.
//
//go:embed hustings.wasm
var module []byte

// program compiles the module when the first elector is created.
var program = sync.OnceValues(func() (*core.Program, error) { return core.Compile(module) })

func newInstance() (*core.Instance, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	return program.New()
}
