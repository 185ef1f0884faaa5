package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

func to[T any](value T) *T { return &value }

func create(t *testing.T, inputs CommandInputs) (CommandOutputs, error) {
	t.Helper()
	response, err := (&Command{}).Create(
		context.Background(), infer.CreateRequest[CommandInputs]{Name: "test", Inputs: inputs},
	)
	return response.Output, err
}

func TestCreateReturnsBothStreamsAndTakesStandardInput(t *testing.T) {
	outputs, err := create(t, CommandInputs{
		Connection: &Connection{Endpoint: startServer(t).endpoint},
		Create:     to("cat; echo second; echo bad >&2"),
		Stdin:      to("first\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if outputs.Stdout != "first\nsecond" || outputs.Stderr != "bad" {
		t.Errorf("got %q and %q", outputs.Stdout, outputs.Stderr)
	}
}

func TestFailureNamesTheCommandItsStatusAndWhatItPrinted(t *testing.T) {
	_, err := create(t, CommandInputs{
		Connection: &Connection{Endpoint: startServer(t).endpoint},
		Create:     to("echo before; exit 7"),
	})
	for _, part := range []string{"exit 7", "status 7", "before"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
}

func TestPreviewRunsNothing(t *testing.T) {
	_, err := (&Command{}).Create(context.Background(), infer.CreateRequest[CommandInputs]{
		Inputs: CommandInputs{Connection: &Connection{}, Create: to("true")}, DryRun: true,
	})
	if err != nil {
		t.Error(err)
	}
}

func TestUpdateFallsBackToCreateAndSeesThePreviousOutput(t *testing.T) {
	s := startServer(t, "PULUMI_COMMAND_STDOUT")
	inputs := CommandInputs{
		Connection: &Connection{Endpoint: s.endpoint},
		Create:     to("echo after $PULUMI_COMMAND_STDOUT"),
	}
	old := CommandOutputs{CommandInputs: inputs, Result: Result{Stdout: "this", Stderr: "refused"}}
	response, err := (&Command{}).Update(context.Background(), infer.UpdateRequest[CommandInputs, CommandOutputs]{
		State: old, Inputs: inputs,
	})
	if err != nil || response.Output.Stdout != "after this" {
		t.Errorf("got %q, %v", response.Output.Stdout, err)
	}
}

func TestARefusedEnvironmentVariableIsAnError(t *testing.T) {
	connection := &Connection{Endpoint: startServer(t, "TAKEN").endpoint}
	outputs, err := create(t, CommandInputs{
		Connection: connection, Create: to("echo $TAKEN"), Environment: map[string]string{"TAKEN": "yes"},
	})
	if err != nil || outputs.Stdout != "yes" {
		t.Errorf("got %q, %v", outputs.Stdout, err)
	}
	_, err = create(t, CommandInputs{
		Connection: connection, Create: to("true"), Environment: map[string]string{"REFUSED": "x"},
	})
	if err == nil || !strings.Contains(err.Error(), "REFUSED") {
		t.Errorf("got %v", err)
	}
}

func TestAWrongHostKeyIsRefusedAsOftenAsAsked(t *testing.T) {
	endpoint := startServer(t).endpoint
	endpoint.HostKey = startServer(t).endpoint.HostKey
	endpoint.DialErrorLimit = to(1)
	_, err := create(t, CommandInputs{Connection: &Connection{Endpoint: endpoint}, Create: to("true")})
	if err == nil || !strings.Contains(err.Error(), "2 attempts") {
		t.Errorf("got %v", err)
	}
}

func TestTheProxyIsTheWayToTheServer(t *testing.T) {
	proxy, target := startServer(t), startServer(t)
	outputs, err := create(t, CommandInputs{
		Connection: &Connection{Endpoint: target.endpoint, Proxy: &ProxyConnection{proxy.endpoint}},
		Create:     to("echo there"),
	})
	if err != nil || outputs.Stdout != "there" {
		t.Errorf("got %q, %v", outputs.Stdout, err)
	}
	wrong := startServer(t).endpoint
	wrong.PrivateKey = proxy.endpoint.PrivateKey
	_, err = create(t, CommandInputs{
		Connection: &Connection{Endpoint: target.endpoint, Proxy: &ProxyConnection{wrong}}, Create: to("true"),
	})
	if err == nil || !strings.Contains(err.Error(), "jump host") {
		t.Errorf("got %v", err)
	}
}

func TestCopyFollowsTheRulesForFilesAndDirectories(t *testing.T) {
	connection := &Connection{Endpoint: startServer(t).endpoint}
	local, there := t.TempDir(), t.TempDir()
	for _, name := range []string{"tree/one", "tree/sub/two"} {
		file := filepath.Join(local, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(there, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name string) types.AssetOrArchive {
		return types.AssetOrArchive{Asset: &resource.Asset{Path: filepath.Join(local, name)}}
	}
	tree := func(end string) types.AssetOrArchive {
		return types.AssetOrArchive{Archive: &resource.Archive{Path: filepath.Join(local, "tree") + end}}
	}
	text := types.AssetOrArchive{Asset: &resource.Asset{Text: "hello"}}
	for _, c := range []struct {
		name, target, expected string
		source                 types.AssetOrArchive
	}{
		{"text in new directories", "a/b/text", "a/b/text", text},
		{"text onto a directory", "a", "", text},
		{"file to a new name", "c/renamed", "c/renamed", file("tree/one")},
		{"file into a directory", "c", "c/one", file("tree/one")},
		{"file over a file", "c/one", "c/one", file("tree/sub/two")},
		{"directory into a new one", "d", "d/tree/sub/two", tree("")},
		{"contents of a directory", "e", "e/sub/two", tree("/")},
		{"directory onto a file", "file", "", tree("/")},
	} {
		t.Run(c.name, func(t *testing.T) {
			inputs := CopyToRemoteInputs{
				Connection: connection, Source: c.source, RemotePath: filepath.Join(there, c.target),
			}
			_, err := (&CopyToRemote{}).Create(
				context.Background(), infer.CreateRequest[CopyToRemoteInputs]{Inputs: inputs},
			)
			if (err == nil) != (c.expected != "") {
				t.Fatalf("got %v", err)
			}
			if c.expected != "" {
				if _, err := os.Stat(filepath.Join(there, c.expected)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
