// csi-attacher attaches volumes to servers: it watches VolumeAttachments and asks the CSI driver.
// The lab's own program with the released one's flags, as far as charts use them; it leaves out
// secrets, in-tree migration and drivers that cannot publish.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/kubernetes-csi/csi-lib-utils/leaderelection"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	"github.com/kubernetes-csi/csi-lib-utils/rpc"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const workers = 10

type attacher struct {
	driver     string
	finalizer  string
	filesystem string
	timeout    time.Duration
	client     kubernetes.Interface
	controller csi.ControllerClient
	informers  informers.SharedInformerFactory
	queue      workqueue.TypedRateLimitingInterface[string]
}

func main() {
	klog.InitFlags(nil)
	address := flag.String("csi-address", "/run/csi/socket", "the driver's socket")
	kubeconfig := flag.String("kubeconfig", "", "for use outside a cluster")
	timeout := flag.Duration("timeout", 15*time.Second, "how long one call to the driver may take")
	filesystem := flag.String("default-fstype", "", "for volumes that name none")
	elect := flag.Bool("leader-election", false, "let one of several replicas work")
	flag.Parse()
	ctx := context.Background()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(rest.AddUserAgent(config, "csi-attacher"))
	lost := connection.OnConnectionLoss(connection.ExitOnConnectionLoss())
	conn, err := connection.Connect(ctx, *address, metrics.NewCSIMetricsManager(""), lost)
	if err != nil {
		klog.Fatalf("connect to the driver at %s: %v", *address, err)
	}
	if err := rpc.ProbeForever(ctx, conn, *timeout); err != nil {
		klog.Fatal(err)
	}
	driver, err := rpc.GetDriverName(ctx, conn)
	if err != nil {
		klog.Fatal(err)
	}
	a := &attacher{
		driver: driver,
		// The released program's, so that either may end what the other began.
		finalizer:  "external-attacher/" + strings.ReplaceAll(driver, "/", "-"),
		filesystem: *filesystem,
		timeout:    *timeout,
		client:     client,
		controller: csi.NewControllerClient(conn),
		informers:  informers.NewSharedInformerFactory(client, 10*time.Minute),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)),
	}
	if !*elect {
		a.run(ctx)
		return
	}
	lock := leaderelection.NewLeaderElection(client, "external-attacher-leader-"+driver, a.run)
	if err := lock.Run(); err != nil {
		klog.Fatal(err)
	}
}

func (a *attacher) run(ctx context.Context) {
	attachments := a.informers.Storage().V1().VolumeAttachments()
	add := func(object any) {
		if attachment, ok := object.(*storage.VolumeAttachment); ok && attachment.Spec.Attacher == a.driver {
			a.queue.Add(attachment.Name)
		}
	}
	_, _ = attachments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
	})
	a.informers.Start(ctx.Done())
	a.informers.WaitForCacheSync(ctx.Done())
	klog.InfoS("working", "driver", a.driver)
	for range workers {
		go a.work(ctx)
	}
	<-ctx.Done()
	os.Exit(1)
}

func (a *attacher) work(ctx context.Context) {
	for {
		name, stop := a.queue.Get()
		if stop {
			return
		}
		if err := a.sync(ctx, name); err != nil {
			klog.ErrorS(err, "will try again", "attachment", name)
			a.queue.AddRateLimited(name)
		} else {
			a.queue.Forget(name)
		}
		a.queue.Done(name)
	}
}

func (a *attacher) sync(ctx context.Context, name string) error {
	// From the server, not from the cache: what was just written must be seen.
	attachment, err := a.client.StorageV1().VolumeAttachments().Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if attachment.DeletionTimestamp != nil {
		return a.detach(ctx, attachment)
	}
	if attachment.Status.Attached {
		return nil
	}
	return a.attach(ctx, attachment)
}

func (a *attacher) attach(ctx context.Context, attachment *storage.VolumeAttachment) error {
	volume, source, node, err := a.subjects(ctx, attachment)
	if err != nil {
		return errors.Join(err, a.report(attachment, nil, "attachError", err))
	}
	// Neither the request nor the volume may vanish while the server has it.
	if err := a.finalize(ctx, attachment.Finalizers, func(patch []byte) error {
		_, err := a.client.StorageV1().VolumeAttachments().Patch(
			ctx, attachment.Name, types.MergePatchType, patch, meta.PatchOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := a.finalize(ctx, volume.Finalizers, func(patch []byte) error {
		_, err := a.client.CoreV1().PersistentVolumes().Patch(
			ctx, volume.Name, types.MergePatchType, patch, meta.PatchOptions{})
		return err
	}); err != nil {
		return err
	}
	answer, err := a.controller.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{
		VolumeId:         source.VolumeHandle,
		NodeId:           node,
		VolumeCapability: a.capability(volume, source),
		Readonly:         source.ReadOnly,
		VolumeContext:    source.VolumeAttributes,
	})
	if err != nil {
		return errors.Join(err, a.report(attachment, nil, "attachError", err))
	}
	klog.InfoS("attached", "volume", source.VolumeHandle, "node", node)
	return a.report(attachment, answer.PublishContext, "attachError", nil)
}

func (a *attacher) detach(ctx context.Context, attachment *storage.VolumeAttachment) error {
	if !slices.Contains(attachment.Finalizers, a.finalizer) {
		return nil
	}
	volume, source, node, err := a.subjects(ctx, attachment)
	if err == nil {
		_, err = a.controller.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{
			VolumeId: source.VolumeHandle, NodeId: node,
		})
	}
	if err != nil {
		return errors.Join(err, a.report(attachment, nil, "detachError", err))
	}
	klog.InfoS("detached", "volume", source.VolumeHandle, "node", node)
	if err := a.release(ctx, attachment, volume); err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(attachment.Finalizers), func(f string) bool { return f == a.finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": kept, "resourceVersion": attachment.ResourceVersion,
	}})
	if err != nil {
		return err
	}
	_, err = a.client.StorageV1().VolumeAttachments().Patch(
		ctx, attachment.Name, types.MergePatchType, patch, meta.PatchOptions{})
	return err
}

// The volume may be deleted once no server has it.
func (a *attacher) release(ctx context.Context, gone *storage.VolumeAttachment, volume *core.PersistentVolume) error {
	if !slices.Contains(volume.Finalizers, a.finalizer) {
		return nil
	}
	all, err := a.client.StorageV1().VolumeAttachments().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, other := range all.Items {
		name := other.Spec.Source.PersistentVolumeName
		if other.UID != gone.UID && name != nil && *name == volume.Name {
			return nil
		}
	}
	kept := slices.DeleteFunc(slices.Clone(volume.Finalizers), func(f string) bool { return f == a.finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": kept, "resourceVersion": volume.ResourceVersion,
	}})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().PersistentVolumes().Patch(
		ctx, volume.Name, types.MergePatchType, patch, meta.PatchOptions{})
	return err
}

// The volume, what the driver knows of it, and the driver's name for the node.
func (a *attacher) subjects(ctx context.Context, attachment *storage.VolumeAttachment) (
	*core.PersistentVolume, *core.CSIPersistentVolumeSource, string, error,
) {
	name := attachment.Spec.Source.PersistentVolumeName
	if name == nil {
		return nil, nil, "", errors.New("the attachment names no persistent volume")
	}
	volume, err := a.client.CoreV1().PersistentVolumes().Get(ctx, *name, meta.GetOptions{})
	if err != nil {
		return nil, nil, "", err
	}
	if volume.Spec.CSI == nil {
		return nil, nil, "", fmt.Errorf("the persistent volume %s is not of a CSI driver", *name)
	}
	// The Node object may be gone before its volumes are: then the name noted at attaching serves.
	node := attachment.Annotations["csi.alpha.kubernetes.io/node-id"]
	found, err := a.client.StorageV1().CSINodes().Get(ctx, attachment.Spec.NodeName, meta.GetOptions{})
	if err == nil {
		for _, driver := range found.Spec.Drivers {
			if driver.Name == a.driver {
				node = driver.NodeID
			}
		}
	} else if !apierrors.IsNotFound(err) {
		return nil, nil, "", err
	}
	if node == "" {
		return nil, nil, "", fmt.Errorf("the driver has not registered on node %s", attachment.Spec.NodeName)
	}
	if attachment.Annotations["csi.alpha.kubernetes.io/node-id"] != node && attachment.DeletionTimestamp == nil {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{"csi.alpha.kubernetes.io/node-id": node},
		}})
		if err != nil {
			return nil, nil, "", err
		}
		changed, err := a.client.StorageV1().VolumeAttachments().Patch(
			ctx, attachment.Name, types.MergePatchType, patch, meta.PatchOptions{})
		if err != nil {
			return nil, nil, "", err
		}
		changed.DeepCopyInto(attachment)
	}
	return volume, volume.Spec.CSI, node, nil
}

func (a *attacher) capability(volume *core.PersistentVolume, source *core.CSIPersistentVolumeSource) *csi.VolumeCapability {
	capability := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{
		Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	}}
	for _, mode := range volume.Spec.AccessModes {
		switch mode {
		case core.ReadWriteMany:
			capability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		case core.ReadOnlyMany:
			capability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
		}
	}
	if volume.Spec.VolumeMode != nil && *volume.Spec.VolumeMode == core.PersistentVolumeBlock {
		capability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return capability
	}
	filesystem := source.FSType
	if filesystem == "" {
		filesystem = a.filesystem
	}
	capability.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
		FsType: filesystem, MountFlags: volume.Spec.MountOptions,
	}}
	return capability
}

func (a *attacher) finalize(_ context.Context, have []string, apply func([]byte) error) error {
	if slices.Contains(have, a.finalizer) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": append(slices.Clone(have), a.finalizer),
	}})
	if err != nil {
		return err
	}
	return apply(patch)
}

// Write into the status what came of it; on a context of its own, the call's may have run out.
func (a *attacher) report(attachment *storage.VolumeAttachment, published map[string]string, field string, failure error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	status := map[string]any{field: nil}
	if failure != nil {
		status[field] = map[string]any{"message": failure.Error(), "time": meta.Now()}
	} else {
		status["attached"] = true
		status["attachmentMetadata"] = published
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = a.client.StorageV1().VolumeAttachments().Patch(
		ctx, attachment.Name, types.MergePatchType, patch, meta.PatchOptions{}, "status")
	return err
}
