package demo

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/testkit"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// refusedExample is one of the Services of examples/refused.yaml.
func (s *story) refusedExample(name string) (*unstructured.Unstructured, error) {
	objects, err := s.Network.Example("refused.yaml")
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.GetName() == name {
			return o, nil
		}
	}
	return nil, fmt.Errorf("examples/refused.yaml has no Service %s", name)
}

// classUnknown: a Service whose class doesn't exist says so, and what to do.
func classUnknown(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	service, err := s.refusedExample("no-such-class")
	if err != nil {
		return "", err
	}
	if err := t.Apply(ctx, service); err != nil {
		return "", err
	}
	c, err := awaitComplaint(ctx, t, service.GetName(), "ClassNotFound", "name one that does")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("event and condition ClassNotFound: %q", c.event), deleteService(ctx, t, service.GetName())
}

// portRefused: a port that may not be bound is an error of that port alone; the other one is served.
func portRefused(ctx context.Context, s *story) (string, error) {
	if s.inKernel {
		return refusedInKernel(ctx, s)
	}
	t := s.Tenants[0]
	service, err := s.refusedExample("port-80")
	if err != nil {
		return "", err
	}
	reason, fix, free, err := s.spoilPort80(service)
	if err != nil {
		return "", err
	}
	defer free()
	if err := t.Apply(ctx, service); err != nil {
		return "", err
	}
	a, err := awaitAddress(ctx, t, service.GetName())
	if err != nil {
		return "", err
	}
	if err := s.firstAnswers(ctx, t, a, webPort); err != nil {
		return "", err
	}
	if err := awaitPortError(ctx, t, service.GetName(), 80, reason); err != nil {
		return "", err
	}
	c, err := awaitComplaint(ctx, t, service.GetName(), reason, fix)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ports[80].error %s, port %d is answered; event and condition: %q", reason, webPort, c.event), deleteService(ctx, t, service.GetName())
}

// refusedInKernel: a kernel binds any port, but can put nothing into a stream. A Service that wants a header there says so,
// and is served once it no longer does.
func refusedInKernel(ctx context.Context, s *story) (string, error) {
	t := s.Tenants[0]
	service := newService("proxied")
	service.SetAnnotations(map[string]string{v1alpha1.AnnotationProxyProtocol: "V2"})
	if err := t.Apply(ctx, service); err != nil {
		return "", err
	}
	c, err := awaitComplaint(ctx, t, service.GetName(), "NotSupported", "class with another data plane")
	if err != nil {
		return "", err
	}
	if err := t.Apply(ctx, newService("proxied")); err != nil {
		return "", err
	}
	a, err := awaitAddress(ctx, t, service.GetName())
	if err != nil {
		return "", err
	}
	if err := s.firstAnswers(ctx, t, a, webPort); err != nil {
		return "", err
	}
	return fmt.Sprintf("event and condition: %q; without it port %d is answered", c.event, webPort), deleteService(ctx, t, service.GetName())
}

// spoilPort80 sees to it that port 80 can't be bound, and returns with which reason and which fix. Where the
// host lets anybody bind it, it is occupied on an address that the Service then asks for.
func (s *story) spoilPort80(service *unstructured.Unstructured) (reason, fix string, free func(), err error) {
	if !unprivilegedFrom80() {
		return "PortNotPermitted", "use a port above 1023", func() {}, nil
	}
	a := s.served(99)
	service.SetAnnotations(map[string]string{v1alpha1.AnnotationAddresses: a.String()})
	listeners := []net.Listener{}
	free = func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}
	for _, p := range s.Proxies {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(p.At(a), 80).String())
		if err != nil {
			free()
			return "", "", nil, fmt.Errorf("occupying port 80: %w", err)
		}
		listeners = append(listeners, l)
	}
	return "PortInUse", "another port", free, nil
}

// awaitPortError waits until the Service's status has that error on a port, and none on the others.
func awaitPortError(ctx context.Context, t *fleet.Tenant, name string, port int32, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return testkit.Poll(ctx, look, "ports["+strconv.Itoa(int(port))+"].error "+reason, func(ctx context.Context) error {
		s, err := service(ctx, t, name)
		if err != nil {
			return err
		}
		found := false
		for _, i := range s.Status.LoadBalancer.Ingress {
			for _, p := range i.Ports {
				switch {
				case p.Port == port && p.Error != nil && *p.Error == reason:
					found = true
				case p.Port != port && p.Error != nil:
					return fmt.Errorf("port %d has error %s", p.Port, *p.Error)
				}
			}
		}
		if !found {
			return fmt.Errorf("its ports are %s", portsOf(s))
		}
		return nil
	})
}

func portsOf(s *v1.Service) string {
	text := ""
	for _, i := range s.Status.LoadBalancer.Ingress {
		for _, p := range i.Ports {
			text += fmt.Sprintf("%d ", p.Port)
			if p.Error != nil {
				text += *p.Error + " "
			}
		}
	}
	return text
}
