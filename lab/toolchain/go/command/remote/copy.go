package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/pkg/sftp"
	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// CopyToRemote copies a text, a file or a directory to a server.
type CopyToRemote struct{}

// CopyToRemoteInputs is what is copied and where to.
type CopyToRemoteInputs struct {
	Connection *Connection          `pulumi:"connection" provider:"secret"`
	Triggers   []any                `pulumi:"triggers,optional" provider:"replaceOnChanges"`
	Source     types.AssetOrArchive `pulumi:"source"`
	RemotePath string               `pulumi:"remotePath"`
}

// CopyToRemoteOutputs are the inputs.
type CopyToRemoteOutputs struct {
	CopyToRemoteInputs
}

func (i *CopyToRemoteInputs) hash() string {
	switch {
	case i.Source.Archive != nil:
		return i.Source.Archive.Hash
	case i.Source.Asset != nil:
		return i.Source.Asset.Hash
	}
	return ""
}

// Check refuses what cannot be copied: a source that is neither a text nor a path.
func (*CopyToRemote) Check(
	ctx context.Context, request infer.CheckRequest,
) (infer.CheckResponse[CopyToRemoteInputs], error) {
	inputs, failures, err := infer.DefaultCheck[CopyToRemoteInputs](ctx, request.NewInputs)
	if err == nil {
		if reason := refusal(inputs.Source); reason != "" {
			failures = append(failures, p.CheckFailure{Property: "source", Reason: reason})
		}
	}
	return infer.CheckResponse[CopyToRemoteInputs]{Inputs: inputs, Failures: failures}, err
}

func refusal(source types.AssetOrArchive) string {
	asset, archive := source.Asset, source.Archive
	switch {
	case asset != nil && archive != nil:
		return "give one asset or one archive, not both"
	case asset == nil && archive == nil:
		return "give an asset or an archive that is known when previewing"
	case asset != nil && !asset.IsPath() && !asset.IsText():
		return "an asset must be a file or a text"
	case archive != nil && !archive.IsPath():
		return "an archive must be the path of a file or directory"
	}
	return ""
}

// Create copies.
func (*CopyToRemote) Create(
	ctx context.Context, request infer.CreateRequest[CopyToRemoteInputs],
) (infer.CreateResponse[CopyToRemoteOutputs], error) {
	response := infer.CreateResponse[CopyToRemoteOutputs]{Output: CopyToRemoteOutputs{request.Inputs}}
	if request.DryRun {
		return response, nil
	}
	err := request.Inputs.copy(ctx)
	if err == nil {
		response.ID, err = resource.NewUniqueHex("", 8, 0)
	}
	return response, err
}

// Update copies again when the source or the destination is another one.
func (*CopyToRemote) Update(
	ctx context.Context, request infer.UpdateRequest[CopyToRemoteInputs, CopyToRemoteOutputs],
) (infer.UpdateResponse[CopyToRemoteOutputs], error) {
	response := infer.UpdateResponse[CopyToRemoteOutputs]{Output: CopyToRemoteOutputs{request.Inputs}}
	same := request.Inputs.hash() == request.State.hash() && request.Inputs.RemotePath == request.State.RemotePath
	if request.DryRun || same {
		return response, nil
	}
	return response, request.Inputs.copy(ctx)
}

func (i *CopyToRemoteInputs) copy(ctx context.Context) error {
	login, err := i.Connection.dial(ctx)
	if err != nil {
		return err
	}
	defer login.Close()
	// Each file is written once from its start, so writing parts of it at the same time is safe.
	client, err := sftp.NewClient(login.Client, sftp.UseConcurrentWrites(true))
	if err != nil {
		return fmt.Errorf("start SFTP on %s: %w", i.Connection.Host, err)
	}
	defer client.Close()
	target := destination{client}
	switch asset := i.Source.Asset; {
	case asset == nil:
		return target.copyPath(i.Source.Archive.Path, i.RemotePath)
	case asset.IsText():
		return target.copyText(asset.Text, i.RemotePath)
	default:
		return target.copyPath(asset.Path, i.RemotePath)
	}
}

// destination is the file system of the server.
type destination struct {
	client *sftp.Client
}

// kind tells what is at a path: whether there is anything, and whether it is a directory.
func (d destination) kind(name string) (exists, directory bool, _ error) {
	info, err := d.client.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("look at remote %s: %w", name, err)
	}
	return true, info.IsDir(), nil
}

func (d destination) write(name string, source io.Reader) error {
	file, err := d.client.Create(name)
	if err != nil {
		return fmt.Errorf("create remote %s: %w", name, err)
	}
	_, err = file.ReadFrom(source)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write remote %s: %w", name, err)
	}
	return nil
}

func (d destination) makeDirectories(name string) error {
	if err := d.client.MkdirAll(name); err != nil {
		return fmt.Errorf("make remote directory %s: %w", name, err)
	}
	return nil
}

func (d destination) copyText(text, name string) error {
	_, directory, err := d.kind(name)
	if err != nil {
		return err
	}
	if directory {
		return fmt.Errorf("remote %s is a directory: a text needs the path of a file", name)
	}
	if err := d.makeDirectories(path.Dir(name)); err != nil {
		return err
	}
	return d.write(name, strings.NewReader(text))
}

// copyPath copies a file, or a directory with all that is in it.
//
// A file goes into name where that is a directory, else it becomes name. A directory becomes a
// child of name, and with a slash at its end its contents go into name; it never replaces a file.
func (d destination) copyPath(source, name string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	exists, directory, err := d.kind(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if !strings.HasSuffix(source, "/") {
			name = path.Join(name, filepath.Base(source))
		}
		return d.copyTree(source, name)
	}
	if directory {
		name = path.Join(name, filepath.Base(source))
	} else if !exists {
		if err := d.makeDirectories(path.Dir(name)); err != nil {
			return err
		}
	}
	return d.copyFile(source, name)
}

func (d destination) copyFile(source, name string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	return d.write(name, file)
}

func (d destination) copyTree(source, name string) error {
	// The slash makes the walk follow a link that the directory itself may be.
	return filepath.WalkDir(source+"/", func(local string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, local)
		if err != nil {
			return err
		}
		target := path.Join(name, filepath.ToSlash(relative))
		if !entry.IsDir() {
			return d.copyFile(local, target)
		}
		exists, directory, err := d.kind(target)
		if err != nil {
			return err
		}
		if exists && !directory {
			return fmt.Errorf("remote %s is a file: a directory cannot be copied there", target)
		}
		if exists {
			return nil
		}
		return d.makeDirectories(target)
	})
}
