// Package remote runs commands on other machines over SSH, and copies files there.
package remote

import (
	"context"
	"fmt"
	"strings"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"openstack-kubernetes/lab/command/capture"
)

// Command runs one command when it is created, one when it is changed, one when it is deleted.
type Command struct{}

// CommandInputs are the commands and where they run.
type CommandInputs struct {
	Triggers               []any             `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	Create                 *string           `pulumi:"create,optional"`
	Update                 *string           `pulumi:"update,optional"`
	Delete                 *string           `pulumi:"delete,optional"`
	Stdin                  *string           `pulumi:"stdin,optional"`
	Logging                *Logging          `pulumi:"logging,optional"`
	Connection             *Connection       `pulumi:"connection" provider:"secret"`
	Environment            map[string]string `pulumi:"environment,optional"`
	AddPreviousOutputInEnv *bool             `pulumi:"addPreviousOutputInEnv,optional"`
}

// Result is what the last command printed.
type Result struct {
	Stdout string `pulumi:"stdout"`
	Stderr string `pulumi:"stderr"`
}

// CommandOutputs are the inputs and what the last command printed.
type CommandOutputs struct {
	CommandInputs
	Result
}

// Create runs the create command, if there is one.
func (*Command) Create(
	ctx context.Context, request infer.CreateRequest[CommandInputs],
) (infer.CreateResponse[CommandOutputs], error) {
	state := CommandOutputs{CommandInputs: request.Inputs}
	id, err := resource.NewUniqueHex(request.Name, 8, 0)
	if err == nil && !request.DryRun && request.Inputs.Create != nil {
		err = state.run(ctx, *request.Inputs.Create)
	}
	return infer.CreateResponse[CommandOutputs]{ID: id, Output: state}, err
}

// Update runs the update command, or the create command where there is none.
func (*Command) Update(
	ctx context.Context, request infer.UpdateRequest[CommandInputs, CommandOutputs],
) (infer.UpdateResponse[CommandOutputs], error) {
	state := CommandOutputs{CommandInputs: request.Inputs, Result: request.State.Result}
	command := request.Inputs.Update
	if command == nil {
		command = request.Inputs.Create
	}
	var err error
	if !request.DryRun && command != nil {
		err = state.run(ctx, *command)
	}
	return infer.UpdateResponse[CommandOutputs]{Output: state}, err
}

// Delete runs the delete command, if there is one, with the connection that the state holds.
func (*Command) Delete(
	ctx context.Context, request infer.DeleteRequest[CommandOutputs],
) (infer.DeleteResponse, error) {
	state := request.State
	if state.Delete == nil {
		return infer.DeleteResponse{}, nil
	}
	return infer.DeleteResponse{}, state.run(ctx, *state.Delete)
}

// run replaces the result by that of the command; it stays as it was when the command fails.
func (o *CommandOutputs) run(ctx context.Context, command string) error {
	login, err := o.Connection.dial(ctx)
	if err != nil {
		return err
	}
	defer login.Close()
	process, err := login.NewSession()
	if err != nil {
		return fmt.Errorf("open a session on %s: %w", o.Connection.Host, err)
	}
	defer process.Close()

	logger := p.GetLogger(ctx)
	const hint = "the server refused the environment variable %s: name it in AcceptEnv of its " +
		"sshd_config, or set it in the command itself"
	for name, value := range o.Environment {
		if err := process.Setenv(name, value); err != nil {
			logger.Errorf(hint, name)
			return fmt.Errorf("set environment variable %s on %s: %w", name, o.Connection.Host, err)
		}
	}
	if o.AddPreviousOutputInEnv == nil || *o.AddPreviousOutputInEnv {
		for name, value := range map[string]string{capture.PreviousStdout: o.Stdout, capture.PreviousStderr: o.Stderr} {
			if value == "" {
				continue
			}
			// Few servers accept these, and few commands need them: go on without.
			if err := process.Setenv(name, value); err != nil {
				logger.Warningf(hint, name)
			}
		}
	}
	if o.Stdin != nil && *o.Stdin != "" {
		process.Stdin = strings.NewReader(*o.Stdin)
	}
	output := capture.New(logger.InfoStatus, o.Logging.stdout(), o.Logging.stderr())
	process.Stdout, process.Stderr = output.Stdout(), output.Stderr()

	stdout, stderr, err := output.Finish(command, process.Run(command))
	if err != nil {
		return err
	}
	o.Result = Result{Stdout: stdout, Stderr: stderr}
	return nil
}
