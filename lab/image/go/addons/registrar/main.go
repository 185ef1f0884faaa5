// csi-node-driver-registrar tells the kubelet of a CSI driver's socket: the lab's own program with
// the released one's flags, as far as charts use them.
package main

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type server struct {
	registration.UnimplementedRegistrationServer
	driver string
	socket string
}

func (s *server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              s.driver,
		Endpoint:          s.socket,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (s *server) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	klog.InfoS("the kubelet answered", "registered", status.PluginRegistered, "error", status.Error)
	if !status.PluginRegistered {
		// The kubelet tries again when the pod has started this program again.
		os.Exit(1)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func main() {
	klog.InitFlags(nil)
	address := flag.String("csi-address", "/run/csi/socket", "the driver's socket in this container")
	socket := flag.String("kubelet-registration-path", "", "the driver's socket on the node")
	folder := flag.String("plugin-registration-path", "/registration", "where the kubelet looks")
	flag.Parse()
	ctx := context.Background()

	conn, err := connection.Connect(ctx, *address, metrics.NewCSIMetricsManager(""))
	if err != nil {
		klog.Fatalf("connect to the driver at %s: %v", *address, err)
	}
	driver, err := rpc.GetDriverName(ctx, conn)
	if err != nil {
		klog.Fatalf("ask the driver for its name: %v", err)
	}
	_ = conn.Close()

	path := filepath.Join(*folder, driver+"-reg.sock")
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		klog.Fatalf("listen on %s: %v", path, err)
	}
	klog.InfoS("waiting for the kubelet", "driver", driver, "socket", path)
	service := grpc.NewServer(grpc.ConnectionTimeout(10 * time.Second))
	registration.RegisterRegistrationServer(service, &server{driver: driver, socket: *socket})
	klog.Fatal(service.Serve(listener))
}
