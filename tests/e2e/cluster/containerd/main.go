// What a kubelet asks of a container runtime (CRI), told by lines of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type command struct {
	Do      string
	UID     string // of the pod
	Sandbox string // id
	ID      string // of the container
	Parent  string // cgroup
	Image   string
	Command []string
	Logs    string
	Attempt uint32
	Shares  int64
}

func pod(one command) *cri.PodSandboxConfig {
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}
	return &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "web-0", Uid: one.UID, Namespace: "shop"},
		LogDirectory: one.Logs,
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: one.Parent,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: host}},
	}
}

func do(ctx context.Context, runtime cri.RuntimeServiceClient, one command) (string, error) {
	switch one.Do {
	case "ready":
		answer, err := runtime.Version(ctx, &cri.VersionRequest{})
		return answer.GetRuntimeVersion(), err
	case "sandbox":
		answer, err := runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: pod(one)})
		return answer.GetPodSandboxId(), err
	case "create":
		host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}
		answer, err := runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
			PodSandboxId: one.Sandbox, SandboxConfig: pod(one),
			Config: &cri.ContainerConfig{
				Metadata: &cri.ContainerMetadata{Name: "app", Attempt: one.Attempt},
				Image:    &cri.ImageSpec{Image: one.Image}, Command: one.Command,
				LogPath: fmt.Sprintf("app-%d.log", one.Attempt),
				Linux: &cri.LinuxContainerConfig{
					Resources:       &cri.LinuxContainerResources{CpuShares: 1024},
					SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: host}},
			}})
		return answer.GetContainerId(), err
	case "start":
		_, err := runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: one.ID})
		return "", err
	case "update":
		_, err := runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{
			ContainerId: one.ID, Linux: &cri.LinuxContainerResources{CpuShares: one.Shares}})
		return "", err
	case "remove":
		_, err := runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: one.ID})
		if err == nil {
			_, err = runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: one.ID})
		}
		return "", err
	case "end":
		_, err := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: one.Sandbox})
		if err == nil {
			_, err = runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: one.Sandbox})
		}
		return "", err
	}
	return "", fmt.Errorf("unknown command %q", one.Do)
}

func main() {
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var one command
		answer := map[string]string{}
		if err = json.Unmarshal(lines.Bytes(), &one); err == nil {
			answer["answer"], err = do(context.Background(), cri.NewRuntimeServiceClient(connection), one)
		}
		if err != nil {
			answer["error"] = err.Error()
		}
		_ = out.Encode(answer)
	}
}
