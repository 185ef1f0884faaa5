// Package capture keeps what a command prints and passes it on line by line while it runs.
package capture

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Names of the variables that carry the output of the previous run into the next one.
const (
	PreviousStdout = "PULUMI_COMMAND_STDOUT"
	PreviousStderr = "PULUMI_COMMAND_STDERR"
)

// Output collects both streams of one command.
type Output struct {
	mutex  sync.Mutex
	log    func(line string)
	merged bytes.Buffer
	stdout stream
	stderr stream
}

type stream struct {
	output  *Output
	logged  bool
	text    bytes.Buffer
	partial []byte
}

// New makes an Output that hands every full line of the streams to be logged to log.
func New(log func(line string), stdout, stderr bool) *Output {
	output := &Output{log: log}
	output.stdout = stream{output: output, logged: stdout}
	output.stderr = stream{output: output, logged: stderr}
	return output
}

// Stdout is where the command's standard output goes.
func (o *Output) Stdout() io.Writer { return &o.stdout }

// Stderr is where the command's standard error goes.
func (o *Output) Stderr() io.Writer { return &o.stderr }

// Write keeps the bytes; the two streams may be written to at the same time.
func (s *stream) Write(data []byte) (int, error) {
	s.output.mutex.Lock()
	defer s.output.mutex.Unlock()
	s.text.Write(data)
	s.output.merged.Write(data)
	if s.logged {
		s.partial = append(s.partial, data...)
		for {
			end := bytes.IndexByte(s.partial, '\n')
			if end < 0 {
				break
			}
			s.output.log(strings.TrimSuffix(string(s.partial[:end]), "\r"))
			s.partial = s.partial[end+1:]
		}
	}
	return len(data), nil
}

// Finish logs what came after the last line break and returns both streams, each without its
// last line break, or the command's error with everything it printed.
func (o *Output) Finish(command string, err error) (stdout, stderr string, _ error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		if len(s.partial) > 0 {
			o.log(string(s.partial))
			s.partial = nil
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("command %q: %w; it printed:\n%s", command, err, o.merged.String())
	}
	return strings.TrimSuffix(o.stdout.text.String(), "\n"), strings.TrimSuffix(o.stderr.text.String(), "\n"), nil
}
