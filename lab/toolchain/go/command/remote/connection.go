package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	p "github.com/pulumi/pulumi-go-provider"
	"github.com/pulumi/pulumi-go-provider/infer"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/retry"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const (
	defaultUser           = "root"
	defaultPort           = 22
	defaultDialErrorLimit = 10
	defaultPerDialTimeout = 15
)

// Endpoint is one SSH server and how to log in there.
type Endpoint struct {
	User               *string  `pulumi:"user,optional"`
	Password           *string  `pulumi:"password,optional" provider:"secret"`
	Host               string   `pulumi:"host"`
	Port               *float64 `pulumi:"port,optional"`
	PrivateKey         *string  `pulumi:"privateKey,optional" provider:"secret"`
	PrivateKeyPassword *string  `pulumi:"privateKeyPassword,optional" provider:"secret"`
	AgentSocketPath    *string  `pulumi:"agentSocketPath,optional"`
	DialErrorLimit     *int     `pulumi:"dialErrorLimit,optional"`
	PerDialTimeout     *int     `pulumi:"perDialTimeout,optional"`
	HostKey            *string  `pulumi:"hostKey,optional"`
}

// Annotate describes the fields and sets what holds where a program says nothing.
func (e *Endpoint) Annotate(a infer.Annotator) {
	a.Describe(&e.User, "The user to log in as.")
	a.SetDefault(&e.User, defaultUser)
	a.Describe(&e.Password, "The user's password; it also answers keyboard-interactive questions.")
	a.Describe(&e.Host, "The name or address of the server.")
	a.Describe(&e.Port, "The port of its SSH server.")
	a.SetDefault(&e.Port, defaultPort)
	a.Describe(&e.PrivateKey, "The text of an SSH private key; it is tried before the password.")
	a.Describe(&e.PrivateKeyPassword, "The password that the private key is encrypted with.")
	a.Describe(&e.AgentSocketPath, "The socket of an SSH agent; SSH_AUTH_SOCK where it is not given.")
	a.Describe(&e.DialErrorLimit, "How many failed attempts to connect are retried; -1 retries for ever.")
	a.SetDefault(&e.DialErrorLimit, defaultDialErrorLimit)
	a.Describe(&e.PerDialTimeout, "Seconds that one attempt to connect may take; 0 sets no limit.")
	a.SetDefault(&e.PerDialTimeout, defaultPerDialTimeout)
	a.Describe(&e.HostKey, "The server's public key. Any key is accepted where it is not given.")
}

// Connection is the server that a command runs on.
type Connection struct {
	Endpoint
	Proxy *ProxyConnection `pulumi:"proxy,optional"`
}

// Annotate describes the type.
func (c *Connection) Annotate(a infer.Annotator) {
	a.Describe(&c, "An SSH server and how to reach it.")
	a.Describe(&c.Proxy, "A jump host to reach the server through.")
}

// ProxyConnection is the jump host on the way to a server.
type ProxyConnection struct {
	Endpoint
}

// Annotate describes the type.
func (c *ProxyConnection) Annotate(a infer.Annotator) {
	a.Describe(&c, "A jump host and how to log in there.")
}

func (e *Endpoint) address() string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(orDefault(e.Port, defaultPort))))
}

func orDefault[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// clientConfig says who logs in, by what, and which host key is expected.
func (e *Endpoint) clientConfig() (*ssh.ClientConfig, error) {
	config := &ssh.ClientConfig{
		User:            orDefault(e.User, defaultUser),
		Timeout:         time.Duration(orDefault(e.PerDialTimeout, defaultPerDialTimeout)) * time.Second,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	}
	if e.HostKey != nil {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(*e.HostKey))
		if err != nil {
			return nil, fmt.Errorf("hostKey of %s is no public key: %w", e.Host, err)
		}
		config.HostKeyCallback = ssh.FixedHostKey(key)
		// Only this kind of key is asked for: the server may have others.
		config.HostKeyAlgorithms = []string{key.Type()}
	}
	if e.PrivateKey != nil {
		signer, err := e.signer()
		if err != nil {
			return nil, fmt.Errorf("privateKey for %s: %w", e.Host, err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(signer))
	}
	if e.Password != nil {
		answer := func(_, _ string, questions []string, _ []bool) ([]string, error) {
			answers := make([]string, len(questions))
			for i := range answers {
				answers[i] = *e.Password
			}
			return answers, nil
		}
		config.Auth = append(config.Auth, ssh.Password(*e.Password), ssh.KeyboardInteractive(answer))
	}
	if socket := orDefault(e.AgentSocketPath, os.Getenv("SSH_AUTH_SOCK")); socket != "" {
		connection, err := net.Dial("unix", socket)
		if err != nil {
			return nil, fmt.Errorf("SSH agent: %w", err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeysCallback(agent.NewClient(connection).Signers))
	}
	return config, nil
}

func (e *Endpoint) signer() (ssh.Signer, error) {
	if e.PrivateKeyPassword != nil {
		return ssh.ParsePrivateKeyWithPassphrase([]byte(*e.PrivateKey), []byte(*e.PrivateKeyPassword))
	}
	return ssh.ParsePrivateKey([]byte(*e.PrivateKey))
}

// session is a login on a server; closing it closes the one on the jump host too.
type session struct {
	*ssh.Client
	proxy *ssh.Client
}

// Close ends the login.
func (s *session) Close() {
	_ = s.Client.Close()
	if s.proxy != nil {
		_ = s.proxy.Close()
	}
}

// dial logs in on the server, through the jump host where there is one.
func (c *Connection) dial(ctx context.Context) (*session, error) {
	config, err := c.clientConfig()
	if err != nil {
		return nil, err
	}
	limit := orDefault(c.DialErrorLimit, defaultDialErrorLimit)
	if c.Proxy == nil {
		client, err := retried(ctx, "connect to "+c.Host, limit, func() (*ssh.Client, error) {
			return ssh.Dial("tcp", c.address(), config)
		})
		if err != nil {
			return nil, err
		}
		return &session{Client: client}, nil
	}

	proxyConfig, err := c.Proxy.clientConfig()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	proxyLimit := orDefault(c.Proxy.DialErrorLimit, defaultDialErrorLimit)
	proxy, err := retried(ctx, "connect to jump host "+c.Proxy.Host, proxyLimit, func() (*ssh.Client, error) {
		return ssh.Dial("tcp", c.Proxy.address(), proxyConfig)
	})
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	client, err := c.dialThrough(ctx, proxy, config, limit)
	if err != nil {
		_ = proxy.Close()
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &session{Client: client, proxy: proxy}, nil
}

// dialThrough logs in on the server over a connection that the jump host opens.
//
// A failed handshake closes that connection, and its retries do not open another one: they all
// fail. The official plugin does the same, and what runs here has to run there too.
func (c *Connection) dialThrough(
	ctx context.Context, proxy *ssh.Client, config *ssh.ClientConfig, limit int,
) (*ssh.Client, error) {
	connection, err := retried(ctx, "connect to "+c.Host+" from the jump host", limit, func() (net.Conn, error) {
		return proxy.Dial("tcp", c.address())
	})
	if err != nil {
		return nil, err
	}
	return retried(ctx, "log in on "+c.Host, limit, func() (*ssh.Client, error) {
		established, channels, requests, err := ssh.NewClientConn(connection, c.address(), config)
		if err != nil {
			return nil, err
		}
		return ssh.NewClient(established, channels, requests), nil
	})
}

// retried calls attempt until it succeeds or has failed more often than limit; a negative limit is none.
func retried[T any](ctx context.Context, what string, limit int, attempt func() (T, error)) (T, error) {
	var result T
	accepted, _, err := retry.Until(ctx, retry.Acceptor{
		Accept: func(try int, _ time.Duration) (bool, any, error) {
			var err error
			if result, err = attempt(); err == nil {
				return true, nil, nil
			}
			failed := try + 1
			if limit >= 0 && failed > limit {
				return true, nil, fmt.Errorf("could not %s in %d attempts: %w", what, failed, err)
			}
			p.GetLogger(ctx).InfoStatusf("could not %s (attempt %d), trying again", what, failed)
			return false, nil, nil
		},
	})
	if err == nil && !accepted {
		err = errors.Join(fmt.Errorf("could not %s", what), ctx.Err())
	}
	return result, err
}
