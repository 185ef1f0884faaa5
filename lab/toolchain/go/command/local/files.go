package local

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/gobwas/glob"
	"github.com/pulumi/pulumi-go-provider/infer/types"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// collect makes assets and an archive of the files below directory that the patterns choose;
// each is nil where no patterns are given.
func collect(
	directory string, assetPatterns, archivePatterns []string,
) (map[string]*types.AssetOrArchive, *resource.Archive, error) {
	var assets map[string]*types.AssetOrArchive
	var archive *resource.Archive
	if assetPatterns != nil {
		found, err := match(directory, assetPatterns)
		if err != nil {
			return nil, nil, err
		}
		assets = map[string]*types.AssetOrArchive{}
		for name, asset := range found {
			assets[name] = &types.AssetOrArchive{Asset: asset}
		}
	}
	if archivePatterns != nil {
		found, err := match(directory, archivePatterns)
		if err != nil {
			return nil, nil, err
		}
		members := map[string]any{}
		for name, asset := range found {
			members[name] = asset
		}
		if archive, err = resource.NewAssetArchive(members); err != nil {
			return nil, nil, err
		}
	}
	return assets, archive, nil
}

// match finds files by their slash-separated path; the last pattern that fits decides, and one
// that begins with "!" leaves files out.
func match(directory string, patterns []string) (map[string]*resource.Asset, error) {
	type rule struct {
		glob glob.Glob
		keep bool
	}
	rules := make([]rule, 0, len(patterns))
	for _, pattern := range patterns {
		text, leaveOut := strings.CutPrefix(pattern, "!")
		compiled, err := glob.Compile(text, '/')
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		rules = append(rules, rule{compiled, !leaveOut})
	}
	found := map[string]*resource.Asset{}
	err := fs.WalkDir(os.DirFS(directory), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		keep := false
		for _, rule := range rules {
			if rule.glob.Match(name) {
				keep = rule.keep
			}
		}
		if keep {
			found[name], err = resource.NewPathAsset(path.Join(directory, name))
		}
		return err
	})
	return found, err
}
