package hustings

import (
	"errors"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// inPlace calls create with the network namespace of this thread, and with a function that binds an abstract socket in
// it: the instance lock. The caller of that function keeps the socket open as long as the instance, or any of its work,
// lives. Threads of one process may be in different namespaces, so both happen on one thread.
func inPlace[T any](create func(networkNamespace string, bind func(name string) (closeSocket func(), err error)) (T, error)) (T, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &namespace); err != nil {
		var none T
		return none, err
	}
	return create(strconv.FormatUint(namespace.Ino, 10), bindSocket)
}

func bindSocket(name string) (closeSocket func(), err error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if !leavesRoom(socket) {
		_ = unix.Close(socket)
		return nil, errors.New("half of the file descriptors of this process are in use: raise RLIMIT_NOFILE")
	}
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
		_ = unix.Close(socket)
		return nil, err
	}
	return func() { _ = unix.Close(socket) }, nil
}

// leavesRoom returns whether a new file descriptor is in the lower half of those that the process may use: the locks of
// a thousand electors must leave descriptors for the connections that the electors need to lead.
func leavesRoom(descriptor int) bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || uint64(descriptor) < limit.Cur/2
}
