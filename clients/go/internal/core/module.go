// Package core runs the elector of Hustings, a WebAssembly module, and decides nothing itself. docs/abi.md describes the
// module.
package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// version is the version of the interface that this package knows.
const version = 2

// scratch is the size of the first buffer for an input.
const scratch = 4096

// ErrTrapped means that an instance is broken and must not be called again.
var ErrTrapped = errors.New("the WebAssembly module of the elector has trapped: this is a bug, please report it")

// A Program is the module, ready to run, of which each elector has an instance.
type Program struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
	// interpreted is why the module is interpreted, or nil if it is compiled.
	interpreted error
}

// Compile compiles the module to machine code. Where that fails, such as on a system that allows no executable memory,
// the module is interpreted.
func Compile(module []byte) (*Program, error) {
	program, err := prepare(wazero.NewRuntimeConfigCompiler(), module)
	if err != nil {
		return Interpret(module, err)
	}
	// The compiler has left some 40 MB of garbage, which the Go runtime would keep for a heap that never grows to that.
	go debug.FreeOSMemory()
	return program, nil
}

// Interpret prepares the module for wazero's interpreter, because of a failure to compile it.
func Interpret(module []byte, failure error) (*Program, error) {
	program, err := prepare(wazero.NewRuntimeConfigInterpreter(), module)
	if err != nil {
		return nil, fmt.Errorf("cannot interpret the WebAssembly module of the elector: %w", errors.Join(err, failure))
	}
	program.interpreted = failure
	return program, nil
}

// prepare turns a panic of wazero into an error: it panics if it gets no executable memory.
func prepare(config wazero.RuntimeConfig, module []byte) (program *Program, err error) {
	defer func() {
		if value := recover(); value != nil {
			program, err = nil, fmt.Errorf("wazero panicked: %v", value)
		}
	}()
	ctx := context.Background()
	machine := wazero.NewRuntimeWithConfig(ctx, config)
	code, err := machine.CompileModule(ctx, module)
	if err != nil {
		return nil, errors.Join(err, machine.Close(ctx))
	}
	return &Program{runtime: machine, code: code}, nil
}

// An Instance is one instance of the module. It is not safe for concurrent use.
type Instance struct {
	program                                  *Program
	module                                   api.Module
	allocate, free, create, step, drop, gate api.Function
	broken                                   bool
	// The buffers of the inputs of a call, in this order.
	buffers [3]buffer
	stack   [8]uint64
}

// A buffer is a buffer of the module for inputs.
type buffer struct{ pointer, size uint32 }

// New starts an instance of the module.
func (p *Program) New() (*Instance, error) {
	ctx := context.Background()
	module, err := p.runtime.InstantiateModule(ctx, p.code, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, fmt.Errorf("cannot start the WebAssembly module of the elector: %w", err)
	}
	i := &Instance{program: p, module: module}
	var abi api.Function
	for name, function := range map[string]*api.Function{
		"hustings_alloc": &i.allocate, "hustings_free": &i.free, "hustings_new": &i.create,
		"hustings_step": &i.step, "hustings_drop": &i.drop, "hustings_gate": &i.gate, "hustings_abi": &abi,
	} {
		if *function = module.ExportedFunction(name); *function == nil {
			return nil, fmt.Errorf("the WebAssembly module of the elector has no function %s", name)
		}
	}
	found, err := i.call(abi)
	if err != nil {
		return nil, err
	}
	if found != version {
		return nil, fmt.Errorf("the WebAssembly module of the elector has interface %d, not %d", found, version)
	}
	return i, nil
}

// Interpreted returns why the module is interpreted, or nil if it is compiled.
func (i *Instance) Interpreted() error { return i.program.interpreted }

// Create creates an elector.
func (i *Instance) Create(moment, wall int64, config []byte) (Created, error) {
	var created Created
	answer, err := i.CreateRaw(moment, wall, config)
	return created, decode(answer, err, &created, &created.Error)
}

// CreateRaw is like [Instance.Create], and returns the bytes of the answer.
func (i *Instance) CreateRaw(moment, wall int64, config []byte) ([]byte, error) {
	if err := i.input(config); err != nil {
		return nil, err
	}
	return i.answer(i.call(i.create, uint64(moment), uint64(wall), uint64(i.buffers[0].pointer), uint64(len(config))))
}

// Step lets an elector observe an event, and decide.
func (i *Instance) Step(elector uint32, moment, wall int64, draw uint32, head, body []byte) (*Decision, error) {
	decision := new(Decision)
	answer, err := i.StepRaw(elector, moment, wall, draw, head, body)
	return decision, decode(answer, err, decision, &decision.Error)
}

// StepRaw is like [Instance.Step], and returns the bytes of the answer, which are valid until the next call.
func (i *Instance) StepRaw(elector uint32, moment, wall int64, draw uint32, head, body []byte) ([]byte, error) {
	if err := i.input(head, body); err != nil {
		return nil, err
	}
	return i.answer(i.call(i.step, uint64(elector), uint64(moment), uint64(wall), uint64(draw),
		uint64(i.buffers[0].pointer), uint64(len(head)), uint64(i.buffers[1].pointer), uint64(len(body))))
}

// Drop forgets an elector.
func (i *Instance) Drop(elector uint32) error {
	_, err := i.call(i.drop, uint64(elector))
	return err
}

// Gate classifies a request. target is the path with the query; body matters for a DELETE only.
func (i *Instance) Gate(method, target string, body []byte, upgrades, unreadable bool) (Class, error) {
	if err := i.input([]byte(method), []byte(target), body); err != nil {
		return Write, err
	}
	var flags uint64
	if upgrades {
		flags |= 1
	}
	if unreadable {
		flags |= 2
	}
	class, err := i.call(i.gate, uint64(i.buffers[0].pointer), uint64(len(method)), uint64(i.buffers[1].pointer),
		uint64(len(target)), uint64(i.buffers[2].pointer), uint64(len(body)), flags)
	if err != nil || class > uint64(Elsewhere) {
		return Write, err
	}
	return Class(class), nil
}

// Close frees the memory of the instance.
func (i *Instance) Close() { _ = i.module.Close(context.Background()) }

// call calls a function of the module. After a trap it calls none again.
func (i *Instance) call(function api.Function, parameters ...uint64) (uint64, error) {
	if i.broken {
		return 0, ErrTrapped
	}
	copy(i.stack[:], parameters)
	if err := function.CallWithStack(context.Background(), i.stack[:]); err != nil {
		i.broken = true
		return 0, fmt.Errorf("%w: %w", ErrTrapped, err)
	}
	return i.stack[0], nil
}

// input copies the inputs of a call into the buffers of the module.
func (i *Instance) input(inputs ...[]byte) error {
	for at, input := range inputs {
		buffer, length := &i.buffers[at], uint32(len(input))
		if buffer.size < length || buffer.size == 0 {
			if buffer.size > 0 {
				if _, err := i.call(i.free, uint64(buffer.pointer), uint64(buffer.size)); err != nil {
					return err
				}
			}
			buffer.size = 0
			size := max(length, scratch)
			pointer, err := i.call(i.allocate, uint64(size))
			if err != nil {
				return err
			}
			if pointer == 0 {
				return fmt.Errorf("the WebAssembly module of the elector has no memory for %d bytes", length)
			}
			buffer.pointer, buffer.size = uint32(pointer), size
		}
	}
	// The memory may have moved.
	for at, input := range inputs {
		if !i.module.Memory().Write(i.buffers[at].pointer, input) {
			i.broken = true
			return ErrTrapped
		}
	}
	return nil
}

// answer returns an answer of the module.
func (i *Instance) answer(answer uint64, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, ok := i.module.Memory().Read(uint32(answer>>32), uint32(answer))
	if !ok {
		i.broken = true
		return nil, ErrTrapped
	}
	return text, nil
}

// decode decodes an answer, one of whose fields is failure.
func decode(answer []byte, err error, into any, failure *string) error {
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("cannot read the answer of the WebAssembly module of the elector: %w", err)
	}
	if *failure != "" {
		return errors.New(*failure)
	}
	return nil
}
