// pause holds a pod's namespaces: it waits for the signal to end, and reaps orphans meanwhile.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Version is set by the linker to the tag of the image.
var Version = "unknown"

func main() {
	// kubeadm's upgrade check runs "pause -v" and waits for it to end.
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		fmt.Printf("pause %s\n", Version)
		return
	}
	debug.SetGCPercent(-1)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
