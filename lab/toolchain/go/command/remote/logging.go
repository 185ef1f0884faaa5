package remote

import "github.com/pulumi/pulumi-go-provider/infer"

// Logging says which streams appear in Pulumi's log while the command runs.
type Logging string

// Values lists what a program may choose.
func (Logging) Values() []infer.EnumValue[Logging] {
	return []infer.EnumValue[Logging]{
		{Name: "stdout", Value: "stdout", Description: "Log standard output only"},
		{Name: "stderr", Value: "stderr", Description: "Log standard error only"},
		{Name: "stdoutAndStderr", Value: "stdoutAndStderr", Description: "Log both"},
		{Name: "none", Value: "none", Description: "Log nothing"},
	}
}

func (l *Logging) stdout() bool { return l == nil || *l == "stdout" || *l == "stdoutAndStderr" }
func (l *Logging) stderr() bool { return l == nil || *l == "stderr" || *l == "stdoutAndStderr" }
