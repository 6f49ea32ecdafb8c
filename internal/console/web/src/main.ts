// The console of tether: sessions, commands and their terminals, live.
import { App, showSignedOut } from "./app.ts";
import { Connection } from "./connection.ts";
import { codeOf, isAdmitted, signIn, socketURL } from "./login.ts";
import { Session } from "./session.ts";

/** A new link that is opened in the tab of the page changes only what is behind the #, so the browser does not load the page again. */
function awaitNewLink(): void {
  window.addEventListener("hashchange", () => codeOf(location.hash) && location.reload());
}

async function main(): Promise<void> {
  const session = new Session({ open: (onNote) => Connection.open(socketURL(), onNote), admitted: isAdmitted });
  if (!(await signIn())) {
    showSignedOut();
    return;
  }
  await new App(session).run();
}

awaitNewLink();
void main();
