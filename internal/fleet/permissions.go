package fleet

// Permissions are the subjects that a role may use. The hub enforces them.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// HostPermissions are those of one host: it cannot read or forge the messages of others.
//
// A host may not publish to a subject of JetStream, not even to the key of its own lease, and gateways write its lease for it. The hub
// sends the answer of JetStream to any subject that the host names as Reply, whatever the host itself may publish: with one key that it
// can write and read, a host could send any message to any subject, for example a request to delete a stream. For the same reason,
// gateways must never answer to a Reply that is not below the inbox of the host that has sent the message.
func HostPermissions(host string) Permissions {
	return Permissions{
		Publish: []string{
			LinkSubject{host, "*", "*", "*", false}.String(),
			BeatSubject(host),
			LeaseSubject(host),
			AliveSubject("*"),
		},
		Subscribe: []string{hostPrefix + host + ".>"},
	}
}

// GatewayPermissions are those of gateways. A gateway reads and writes the directory, and opens links to all hosts.
func GatewayPermissions() Permissions {
	p := Permissions{
		Publish: []string{
			UpSubjects("*", "*"),
			HostInbox("*") + ".>", // that it is alive, and answers about leases
			"$JS.API.INFO",
			KeySubject(HostsBucket, "*"),
			KeySubject(SessionsBucket, "*"),
		},
		Subscribe: []string{
			DownSubjects("*"),
			AliveSubject("*"),
			BeatSubjects,
			LeaseSubjects,
			GatewayInbox + ".>",
			KeySubject(DrainsBucket, "*"),
		},
	}
	for _, bucket := range []string{HostsBucket, SessionsBucket, DrainsBucket} {
		p.Publish = append(p.Publish, readSubjects(bucket)...)
		p.Publish = append(p.Publish, "$JS.API.STREAM.CREATE."+Stream(bucket))
	}
	return p
}

// OperatorPermissions are those of `tether hosts`: it reads the directory and drains hosts. An operator has to be trusted as a gateway
// is, because it may publish to subjects of JetStream (see HostPermissions).
func OperatorPermissions() Permissions {
	p := Permissions{
		Publish:   []string{"$JS.API.INFO", KeySubject(DrainsBucket, "*")},
		Subscribe: []string{BeatSubjects, GatewayInbox + ".>", KeySubject(DrainsBucket, "*")},
	}
	for _, bucket := range []string{HostsBucket, DrainsBucket} {
		p.Publish = append(p.Publish, readSubjects(bucket)...)
	}
	return p
}

// readSubjects are the subjects of requests that only read a bucket.
func readSubjects(bucket string) []string {
	return []string{
		"$JS.API.STREAM.INFO." + Stream(bucket),
		"$JS.API.DIRECT.GET." + Stream(bucket),
		GetSubject(bucket, "*"),
		"$JS.API.STREAM.MSG.GET." + Stream(bucket),
	}
}
