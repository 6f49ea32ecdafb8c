// The console of tether: sessions, commands and their terminals, live.
import { App, showSignedOut } from "./app.ts";
import { Connection } from "./connection.ts";
import { isAdmitted, signIn, socketURL } from "./login.ts";
import { Session } from "./session.ts";

async function main(): Promise<void> {
  const session = new Session({ open: (onNote) => Connection.open(socketURL(), onNote), admitted: isAdmitted });
  if (!(await signIn())) {
    showSignedOut();
    return;
  }
  await new App(session).run();
}

void main();
