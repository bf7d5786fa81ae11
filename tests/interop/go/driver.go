// driver NAMESRV TOPIC GROUP: a producer and a push consumer of one topic, as ClientDriver.java is one in Java.
//
//	send N   send N more messages; the first makes the topic, and only then the consumer starts
//	counts   say what happened so far
//
// With the environment variables ACCESS_KEY and SECRET_KEY both sign what they send.
// Answers are lines of JSON after a mark: the rest of standard output belongs to the library.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	mark       = "##"
	errorsKept = 5
	retryPause = 100 * time.Millisecond
)

type counts struct {
	Sending      bool     `json:"sending"`
	Acknowledged int      `json:"acknowledged"`
	Received     int      `json:"received"`
	Missing      int      `json:"missing"`
	Duplicates   int      `json:"duplicates"`
	Failures     int      `json:"failures"`
	Errors       []string `json:"errors"`
}

type driver struct {
	topic    string
	producer rocketmq.Producer
	consumer rocketmq.PushConsumer

	lock              sync.Mutex
	wanted, finished  int
	acknowledged      map[string]bool
	received          map[string]bool
	duplicates        int
	failures          int
	errors            []string
	consumerIsRunning bool
}

func main() {
	d, err := newDriver(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(mark + `{"ready":true}`)
	work := make(chan int, 16)
	go func() {
		for n := range work {
			for ; n > 0; n-- {
				d.sendUntilAcknowledged()
			}
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if words[0] == "send" {
			n, err := strconv.Atoi(words[1])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			d.lock.Lock()
			d.wanted += n
			d.lock.Unlock()
			work <- n
		}
		told, _ := json.Marshal(d.counts())
		fmt.Println(mark + string(told))
	}
}

func newDriver(namesrv, topic, group string) (*driver, error) {
	d := &driver{topic: topic, acknowledged: map[string]bool{}, received: map[string]bool{}, errors: []string{}}
	credentials := primitive.Credentials{AccessKey: os.Getenv("ACCESS_KEY"), SecretKey: os.Getenv("SECRET_KEY")}
	servers := primitive.NewPassthroughResolver(strings.Split(namesrv, ";"))
	var err error
	if d.producer, err = rocketmq.NewProducer(
		producer.WithNsResolver(servers),
		producer.WithGroupName(group+"_producer"),
		producer.WithCredentials(credentials)); err != nil {
		return nil, err
	}
	if err = d.producer.Start(); err != nil {
		return nil, err
	}
	d.consumer, err = rocketmq.NewPushConsumer(
		consumer.WithNsResolver(servers),
		consumer.WithGroupName(group),
		consumer.WithInstance(group),
		consumer.WithCredentials(credentials),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	return d, d.consumer.Subscribe(topic, consumer.MessageSelector{}, d.receive)
}

func (d *driver) sendUntilAcknowledged() {
	d.lock.Lock()
	key := fmt.Sprintf("m%d", d.finished)
	d.lock.Unlock()
	for {
		message := primitive.NewMessage(d.topic, []byte(key)).WithKeys([]string{key})
		result, err := d.producer.SendSync(context.Background(), message)
		if err == nil && result.Status == primitive.SendOK {
			break
		}
		d.fail(fmt.Sprintf("%v %v", result, err))
		time.Sleep(retryPause)
	}
	d.lock.Lock()
	d.acknowledged[key] = true
	d.finished++
	d.lock.Unlock()
	// Its start fails where the topic does not exist yet.
	for !d.consumerIsRunning {
		if err := d.consumer.Start(); err != nil {
			d.fail("consumer: " + err.Error())
			time.Sleep(retryPause)
			continue
		}
		d.consumerIsRunning = true
	}
}

func (d *driver) receive(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	for _, message := range messages {
		key := message.GetKeys()
		if string(message.Body) != key {
			d.fail("body is not its own: " + key)
			continue
		}
		d.lock.Lock()
		if d.received[key] {
			d.duplicates++
		}
		d.received[key] = true
		d.lock.Unlock()
	}
	return consumer.ConsumeSuccess, nil
}

func (d *driver) fail(reason string) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.failures++
	d.errors = append(d.errors, reason)
	if len(d.errors) > errorsKept {
		d.errors = d.errors[1:]
	}
}

func (d *driver) counts() counts {
	d.lock.Lock()
	defer d.lock.Unlock()
	missing := 0
	for key := range d.acknowledged {
		if !d.received[key] {
			missing++
		}
	}
	return counts{
		Sending: d.finished < d.wanted, Acknowledged: len(d.acknowledged), Received: len(d.received),
		Missing: missing, Duplicates: d.duplicates, Failures: d.failures, Errors: append([]string{}, d.errors...),
	}
}
