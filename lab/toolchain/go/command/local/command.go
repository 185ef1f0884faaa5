// Package local runs commands on the machine that runs Pulumi.
package local

import (
	"context"
	"os"
	"os/exec"
	"strings"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"openstack-kubernetes/lab/command/capture"
)

// Settings is how a command is run.
type Settings struct {
	Stdin                  *string           `pulumi:"stdin,optional"`
	Logging                *Logging          `pulumi:"logging,optional"`
	Interpreter            []string          `pulumi:"interpreter,optional"`
	Dir                    *string           `pulumi:"dir,optional"`
	Environment            map[string]string `pulumi:"environment,optional"`
	AssetPaths             []string          `pulumi:"assetPaths,optional"`
	ArchivePaths           []string          `pulumi:"archivePaths,optional"`
	AddPreviousOutputInEnv *bool             `pulumi:"addPreviousOutputInEnv,optional"`
}

// Result is what a command leaves behind.
type Result struct {
	Stdout  string                           `pulumi:"stdout"`
	Stderr  string                           `pulumi:"stderr"`
	Assets  map[string]*types.AssetOrArchive `pulumi:"assets,optional"`
	Archive *resource.Archive                `pulumi:"archive,optional"`
}

// Command runs one command when it is created, one when it is changed, one when it is deleted.
type Command struct{}

// CommandInputs are the commands and how they are run.
type CommandInputs struct {
	Triggers []any   `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	Create   *string `pulumi:"create,optional"`
	Update   *string `pulumi:"update,optional"`
	Delete   *string `pulumi:"delete,optional"`
	Settings
}

// CommandOutputs are the inputs and what the last command left behind.
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
		err = state.run(ctx, *request.Inputs.Create, state.Settings)
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
		err = state.run(ctx, *command, state.Settings)
	}
	return infer.UpdateResponse[CommandOutputs]{Output: state}, err
}

// Delete runs the delete command, if there is one.
func (*Command) Delete(
	ctx context.Context, request infer.DeleteRequest[CommandOutputs],
) (infer.DeleteResponse, error) {
	state := request.State
	if state.Delete == nil {
		return infer.DeleteResponse{}, nil
	}
	return infer.DeleteResponse{}, state.run(ctx, *state.Delete, state.Settings)
}

// Run is the function that runs a command in every preview and update.
type Run struct{}

// RunInputs is the command and how it is run.
type RunInputs struct {
	Settings
	Command string `pulumi:"command"`
}

// RunOutputs is what the command left behind.
type RunOutputs struct {
	RunInputs
	Result
}

// Annotate gives the function its name in the schema.
func (r *Run) Annotate(a infer.Annotator) { a.SetToken("local", "run") }

// Invoke runs the command.
func (*Run) Invoke(
	ctx context.Context, request infer.FunctionRequest[RunInputs],
) (infer.FunctionResponse[RunOutputs], error) {
	outputs := RunOutputs{RunInputs: request.Input}
	err := outputs.run(ctx, request.Input.Command, request.Input.Settings)
	return infer.FunctionResponse[RunOutputs]{Output: outputs}, err
}

// run replaces the result by that of the command; it stays as it was when the command fails.
func (r *Result) run(ctx context.Context, command string, settings Settings) error {
	arguments := settings.Interpreter
	if len(arguments) == 0 {
		arguments = []string{"/bin/sh", "-c"}
	}
	process := exec.CommandContext(ctx, arguments[0], append(arguments[1:len(arguments):len(arguments)], command)...)
	directory, err := os.Getwd()
	if err != nil {
		return err
	}
	if settings.Dir != nil {
		directory = *settings.Dir
	}
	process.Dir = directory
	process.Env = os.Environ()
	for name, value := range settings.Environment {
		process.Env = append(process.Env, name+"="+value)
	}
	if settings.AddPreviousOutputInEnv == nil || *settings.AddPreviousOutputInEnv {
		for name, value := range map[string]string{capture.PreviousStdout: r.Stdout, capture.PreviousStderr: r.Stderr} {
			if value != "" {
				process.Env = append(process.Env, name+"="+value)
			}
		}
	}
	if settings.Stdin != nil && *settings.Stdin != "" {
		process.Stdin = strings.NewReader(*settings.Stdin)
	}
	output := capture.New(p.GetLogger(ctx).InfoStatus, settings.Logging.stdout(), settings.Logging.stderr())
	process.Stdout, process.Stderr = output.Stdout(), output.Stderr()

	stdout, stderr, err := output.Finish(command, process.Run())
	if err != nil {
		return err
	}
	assets, archive, err := collect(directory, settings.AssetPaths, settings.ArchivePaths)
	if err != nil {
		return err
	}
	if assets == nil {
		assets = r.Assets
	}
	if archive == nil {
		archive = r.Archive
	}
	*r = Result{Stdout: stdout, Stderr: stderr, Assets: assets, Archive: archive}
	return nil
}
