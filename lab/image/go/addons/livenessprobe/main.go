// livenessprobe answers /healthz by asking a CSI driver whether it is well: the lab's own program
// with the released one's flags, as far as charts use them.
package main

import (
	"context"
	"flag"
	"net/http"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	"k8s.io/klog/v2"
)

func main() {
	klog.InitFlags(nil)
	address := flag.String("csi-address", "/run/csi/socket", "the driver's socket")
	port := flag.String("health-port", "9808", "where /healthz is served")
	endpoint := flag.String("http-endpoint", "", "address and port, instead of health-port")
	limit := flag.Duration("probe-timeout", time.Second, "how long the driver may take")
	flag.Parse()

	conn, err := connection.Connect(context.Background(), *address, metrics.NewCSIMetricsManager(""))
	if err != nil {
		klog.Fatalf("connect to the driver at %s: %v", *address, err)
	}
	http.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), *limit)
		defer cancel()
		ready, err := rpc.Probe(ctx, conn)
		if err != nil || !ready {
			klog.ErrorS(err, "the driver is not well", "ready", ready)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("ok"))
	})
	if *endpoint == "" {
		*endpoint = ":" + *port
	}
	klog.Fatal(http.ListenAndServe(*endpoint, nil))
}
