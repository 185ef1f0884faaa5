package remote

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// server is an SSH server in this process: commands, SFTP and jumps to other servers.
type server struct {
	endpoint Endpoint
	accepted map[string]bool // names of the environment variables that it takes
}

// startServer listens on a free port and lets in whoever has the key of its endpoint.
func startServer(t *testing.T, accepted ...string) *server {
	t.Helper()
	hostSigner, _ := newKey(t)
	clientSigner, clientKey := newKey(t)
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(clientSigner.PublicKey().Marshal()) {
				return nil, fmt.Errorf("unknown key")
			}
			return nil, nil
		},
	}
	config.AddHostKey(hostSigner)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })

	port := float64(listener.Addr().(*net.TCPAddr).Port)
	hostKey := string(ssh.MarshalAuthorizedKey(hostSigner.PublicKey()))
	limit := 0
	s := &server{
		endpoint: Endpoint{
			Host: "127.0.0.1", Port: &port, PrivateKey: &clientKey, HostKey: &hostKey, DialErrorLimit: &limit,
		},
		accepted: map[string]bool{},
	}
	for _, name := range accepted {
		s.accepted[name] = true
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(connection, config)
		}
	}()
	return s
}

func newKey(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

func (s *server) serve(raw net.Conn, config *ssh.ServerConfig) {
	connection, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	defer connection.Close()
	go ssh.DiscardRequests(requests)
	for channel := range channels {
		switch channel.ChannelType() {
		case "session":
			go s.session(channel)
		case "direct-tcpip":
			go jump(channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "not here")
		}
	}
}

func jump(request ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(request.ExtraData(), &target); err != nil {
		return
	}
	other, err := net.Dial("tcp", fmt.Sprintf("%s:%d", target.Host, target.Port))
	if err != nil {
		_ = request.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer other.Close()
	channel, requests, err := request.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	go ssh.DiscardRequests(requests)
	go func() { _, _ = io.Copy(other, channel) }()
	_, _ = io.Copy(channel, other)
}

func (s *server) session(request ssh.NewChannel) {
	channel, requests, err := request.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	environment := os.Environ()
	for request := range requests {
		var name struct{ Text string }
		switch request.Type {
		case "env":
			var variable struct{ Name, Value string }
			_ = ssh.Unmarshal(request.Payload, &variable)
			if s.accepted[variable.Name] {
				environment = append(environment, variable.Name+"="+variable.Value)
			}
			_ = request.Reply(s.accepted[variable.Name], nil)
		case "exec":
			_ = ssh.Unmarshal(request.Payload, &name)
			_ = request.Reply(true, nil)
			process := exec.Command("/bin/sh", "-c", name.Text)
			process.Env, process.Stdin = environment, channel
			process.Stdout, process.Stderr = channel, channel.Stderr()
			status := struct{ Code uint32 }{0}
			if process.Run() != nil {
				status.Code = uint32(process.ProcessState.ExitCode())
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
			return
		case "subsystem":
			_ = ssh.Unmarshal(request.Payload, &name)
			known := strings.EqualFold(name.Text, "sftp")
			_ = request.Reply(known, nil)
			if !known {
				return
			}
			files, err := sftp.NewServer(channel)
			if err != nil {
				return
			}
			_ = files.Serve()
			return
		default:
			_ = request.Reply(false, nil)
		}
	}
}
