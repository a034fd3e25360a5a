// The half of a container runtime that speaks NRI: the library that containerd and CRI-O are built with, told by lines
// of JSON what to do. It makes no containers: whoever tells it to start one has made the cgroup.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

type command struct {
	Do        string
	Pod       string // uid
	Container string // name
	ID        string
	Cpus      string
}

type reply struct {
	Event string            `json:"event"`
	Cpus  string            `json:"cpus"`
	All   map[string]string `json:"all,omitempty"`
	Error string            `json:"error,omitempty"`
}

var (
	lock       sync.Mutex
	out        = json.NewEncoder(os.Stdout)
	pods       = map[string]*api.PodSandbox{}
	containers = map[string]*api.Container{}
)

func say(one reply) {
	lock.Lock()
	defer lock.Unlock()
	_ = out.Encode(one)
}

func cpusOf(resources *api.LinuxResources) string { return resources.GetCpu().GetCpus() }

func newContainer(one command) *api.Container {
	return &api.Container{Id: one.ID, PodSandboxId: "sandbox-" + one.Pod, Name: one.Container,
		State: api.ContainerState_CONTAINER_RUNNING,
		Linux: &api.LinuxContainer{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: one.Cpus}}}}
}

func podOf(uid string) *api.PodSandbox {
	return &api.PodSandbox{Id: "sandbox-" + uid, Name: "pod", Uid: uid, Namespace: "default",
		Labels: map[string]string{"app": "web"}}
}

func handle(runtime *adaptation.Adaptation, one command) reply {
	ctx := context.Background()
	lock.Lock()
	pod, found := pods[one.Pod]
	if !found {
		pod = podOf(one.Pod)
		pods[one.Pod] = pod
	}
	container, found := containers[one.ID]
	if !found {
		container = newContainer(one)
	}
	lock.Unlock()
	done := reply{Event: one.Do}
	var err error
	switch one.Do {
	case "known": // one that was there before any plugin
		lock.Lock()
		containers[one.ID] = container
		lock.Unlock()
	case "create":
		var answer *api.CreateContainerResponse
		answer, err = runtime.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: container})
		if err == nil {
			done.Cpus = cpusOf(answer.GetAdjust().GetLinux().GetResources())
			lock.Lock()
			containers[one.ID] = container
			lock.Unlock()
		}
	case "start":
		err = runtime.StartContainer(ctx, &api.StateChangeEvent{Pod: pod, Container: container})
	case "update":
		var answer *api.UpdateContainerResponse
		resources := &api.LinuxResources{Cpu: &api.LinuxCPU{Cpus: one.Cpus}}
		answer, err = runtime.UpdateContainer(ctx,
			&api.UpdateContainerRequest{Pod: pod, Container: container, LinuxResources: resources})
		for _, update := range answer.GetUpdate() {
			if update.GetContainerId() == one.ID {
				done.Cpus = cpusOf(update.GetLinux().GetResources())
			}
		}
	case "remove":
		err = runtime.RemoveContainer(ctx, &api.StateChangeEvent{Pod: pod, Container: container})
		lock.Lock()
		delete(containers, one.ID)
		lock.Unlock()
	}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

func synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	lock.Lock()
	var allPods []*api.PodSandbox
	var all []*api.Container
	for _, pod := range pods {
		allPods = append(allPods, pod)
	}
	for _, container := range containers {
		all = append(all, container)
	}
	lock.Unlock()
	_, err := tell(ctx, allPods, all)
	if err == nil {
		say(reply{Event: "synchronized"})
	}
	return err
}

// As slow as a real one, which also drops what it was asked when the connection of the plugin ends.
func update(ctx context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(300 * time.Millisecond):
	}
	all := map[string]string{}
	for _, one := range updates {
		all[one.GetContainerId()] = cpusOf(one.GetLinux().GetResources())
	}
	say(reply{Event: "updates", All: all})
	return nil, nil
}

func main() {
	// A busy machine of tests may be slow; a runtime allows two seconds.
	adaptation.SetPluginRequestTimeout(30 * time.Second)
	runtime, err := adaptation.New("test-runtime", "1.2.3", synchronize, update,
		adaptation.WithSocketPath(os.Args[1]), adaptation.WithPluginPath(os.Args[2]), adaptation.WithPluginConfigPath(os.Args[2]))
	if err == nil {
		lines := bufio.NewScanner(os.Stdin)
		started := false
		for err == nil && lines.Scan() {
			var one command
			if err = json.Unmarshal(lines.Bytes(), &one); err != nil {
				break
			}
			if one.Do == "listen" && !started {
				err = runtime.Start()
				started = true
				say(reply{Event: "listen"})
				continue
			}
			say(handle(runtime, one))
		}
		if started {
			runtime.Stop()
		}
	}
	if err != nil {
		say(reply{Event: "failed", Error: err.Error()})
		os.Exit(1)
	}
}
