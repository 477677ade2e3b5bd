//go:build !linux

package hustings

import "errors"

func inPlace[T any](func(string, func(string) (func(), error)) (T, error)) (T, error) {
	var none T
	return none, errors.New("this system has no abstract sockets")
}
