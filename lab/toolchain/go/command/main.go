package main

import (
	_ "github.com/pkg/sftp"
	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	_ "github.com/gobwas/glob"
	_ "golang.org/x/crypto/ssh"
)

func main() { _ = p.RunProvider; _ = infer.Provider }
