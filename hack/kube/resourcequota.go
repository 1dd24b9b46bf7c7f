package main

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

// quotaSync is kube-controller-manager's default.
const quotaSync = 5 * time.Minute

// buildResourceQuota adds the controller that counts what quotas limit.
func (e *controllerEnv) buildResourceQuota(all informerfactory.InformerFactory) error {
	client := e.client("resourcequota-controller")
	discover := client.Discovery().ServerPreferredNamespacedResources
	config, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(e.inf.ForResource), e.inf)
	if err != nil {
		return err
	}
	c, err := resourcequota.NewController(e.ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     e.inf.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaSync),
		InformerFactory:           all,
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(12 * time.Hour),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      config.IgnoredResources,
		InformersStarted:          e.started,
		Registry:                  generic.NewRegistry(config.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return err
	}
	e.addWorkers(c.Run, 5)
	e.add(func(ctx context.Context) { c.Sync(ctx, discover, e.gcPeriod) })
	return nil
}
