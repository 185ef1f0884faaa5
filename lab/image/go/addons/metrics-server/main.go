// metrics-server with the released one's parts and the flags that its chart uses. Its own main
// package does not compile with the Kubernetes libraries that everything else here shares.
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"
	core "k8s.io/api/core/v1"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/metrics-server/pkg/api"
	generatedopenapi "sigs.k8s.io/metrics-server/pkg/api/generated/openapi"
	"sigs.k8s.io/metrics-server/pkg/scraper/client"
	"sigs.k8s.io/metrics-server/pkg/server"
)

type settings struct {
	serving        *options.SecureServingOptionsWithLoopback
	authentication *options.DelegatingAuthenticationOptions
	authorization  *options.DelegatingAuthorizationOptions

	kubeconfig   string
	resolution   time.Duration
	timeout      time.Duration
	nodeSelector string
	insecure     bool
	authority    string
	addressTypes []string
	port         int
	statusPort   bool
}

func main() {
	s := settings{
		serving:        options.NewSecureServingOptions().WithLoopback(),
		authentication: options.NewDelegatingAuthenticationOptions(),
		authorization:  options.NewDelegatingAuthorizationOptions(),
	}
	flags := pflag.CommandLine
	s.serving.AddFlags(flags)
	s.authentication.AddFlags(flags)
	s.authorization.AddFlags(flags)
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "for use outside a cluster")
	flags.DurationVar(&s.resolution, "metric-resolution", time.Minute, "how often the kubelets are asked")
	flags.DurationVar(&s.timeout, "kubelet-request-timeout", 10*time.Second, "how long a kubelet may take")
	flags.StringVar(&s.nodeSelector, "node-selector", "", "which nodes are asked")
	flags.BoolVar(&s.insecure, "kubelet-insecure-tls", false, "do not verify the kubelets' certificates")
	flags.StringVar(&s.authority, "kubelet-certificate-authority", "", "who signed the kubelets' certificates")
	flags.StringSliceVar(&s.addressTypes, "kubelet-preferred-address-types",
		[]string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"}, "in this order")
	flags.IntVar(&s.port, "kubelet-port", 10250, "where kubelets listen")
	flags.BoolVar(&s.statusPort, "kubelet-use-node-status-port", false, "use the port of the node's status")
	pflag.Parse()
	if err := s.run(); err != nil {
		klog.ErrorS(err, "metrics-server")
		os.Exit(1)
	}
}

func (s *settings) run() error {
	for _, err := range append(s.serving.Validate(), s.authentication.Validate()...) {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return fmt.Errorf("no way to the API server: %w", err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	if err := rest.SetKubernetesDefaults(config); err != nil {
		return err
	}
	serving, err := s.apiserver()
	if err != nil {
		return err
	}
	whole, err := server.Config{
		Apiserver:        serving,
		Rest:             config,
		Kubelet:          s.kubelet(config),
		MetricResolution: s.resolution,
		ScrapeTimeout:    s.timeout,
		NodeSelector:     s.nodeSelector,
	}.Complete()
	if err != nil {
		return err
	}
	return whole.RunUntil(genericapiserver.SetupSignalHandler())
}

func (s *settings) apiserver() (*genericapiserver.Config, error) {
	local := []net.IP{net.ParseIP("127.0.0.1")}
	if err := s.serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, local); err != nil {
		return nil, err
	}
	config := genericapiserver.NewConfig(api.Codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	if err := s.serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return nil, err
	}
	if err := s.authentication.ApplyTo(&config.Authentication, config.SecureServing, nil); err != nil {
		return nil, err
	}
	if err := s.authorization.ApplyTo(&config.Authorization); err != nil {
		return nil, err
	}
	namer := openapinamer.NewDefinitionNamer(api.Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIConfig.Info.Title = "Kubernetes metrics-server"
	config.OpenAPIV3Config.Info.Title = "Kubernetes metrics-server"
	return config, nil
}

// The module's schemas are filed under Go's type names; libraries of today look for REST names.
func definitions(reference common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	found := map[string]common.OpenAPIDefinition{}
	renamed := func(path string) spec.Ref { return reference(util.ToRESTFriendlyName(path)) }
	for name, definition := range generatedopenapi.GetOpenAPIDefinitions(renamed) {
		for i, needed := range definition.Dependencies {
			definition.Dependencies[i] = util.ToRESTFriendlyName(needed)
		}
		found[util.ToRESTFriendlyName(name)] = definition
	}
	return found
}

func (s *settings) kubelet(config *rest.Config) *client.KubeletClientConfig {
	kubelet := &client.KubeletClientConfig{
		Client:            *rest.CopyConfig(config),
		Scheme:            "https",
		DefaultPort:       s.port,
		UseNodeStatusPort: s.statusPort,
	}
	for _, kind := range s.addressTypes {
		kubelet.AddressTypePriority = append(kubelet.AddressTypePriority, core.NodeAddressType(kind))
	}
	if s.insecure {
		kubelet.Client.TLSClientConfig.Insecure = true
		kubelet.Client.TLSClientConfig.CAData = nil
		kubelet.Client.TLSClientConfig.CAFile = ""
	} else if s.authority != "" {
		kubelet.Client.TLSClientConfig.CAData = nil
		kubelet.Client.TLSClientConfig.CAFile = s.authority
	}
	return kubelet
}
