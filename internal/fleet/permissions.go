package fleet

// Permissions are the subjects that a role may use. The hub enforces them.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// HostPermissions are those of one host: it cannot read or forge the messages of others, and of the directory it writes only its own
// lease.
func HostPermissions(host string) Permissions {
	return Permissions{
		Publish: []string{
			LinkSubject{host, "*", "*", "*", false}.String(),
			BeatSubject(host),
			AliveSubject("*"),
			KeySubject(HostsBucket, host),
			GetSubject(HostsBucket, host),
		},
		Subscribe: []string{hostPrefix + host + ".>"},
	}
}

// GatewayPermissions are those of gateways. A gateway reads and writes the directory, and opens links to all hosts.
func GatewayPermissions() Permissions {
	p := Permissions{
		Publish: []string{
			UpSubjects("*", "*"),
			hostPrefix + "*.inbox.>", // that it is alive
			"$JS.API.INFO",
			KeySubject(SessionsBucket, "*"),
		},
		Subscribe: []string{
			DownSubjects("*"),
			AliveSubject("*"),
			BeatSubjects,
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

// OperatorPermissions are those of `tether hosts`: it reads the directory and drains hosts.
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
