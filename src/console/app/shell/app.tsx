/** The frame of all views: navigation, the state of the connection, messages. */
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { isConnected, refusal, token as tokenOfTab } from "../api/client.ts";
import { followChanges } from "../api/changes.ts";
import { staleness, staleSinceMs } from "../api/poll.ts";
import { showPlainKeys, showsPlainKeys } from "../keys/known-keys.ts";
import { Failure, Loading } from "../parts/notice.tsx";
import { useAction } from "../parts/action.ts";
import { lazy } from "../parts/lazy.ts";
import { hrefOf, isPublicView, route, type ViewName, views } from "./route.ts";
import { may, operator, session, signIn, signOut, startSession } from "./session.ts";
import { showToast, Toasts } from "./toasts.tsx";
import { type EntryGroup, groupText } from "../parts/entry-groups.ts";
import { timeText } from "../parts/text.ts";

interface LazyView {
  readonly Component: ComponentType;
  readonly load: () => Promise<unknown>;
}

/**
 * A view that is loaded on demand. A retry after a failure loads the whole page again, because a new deployment may
 * have replaced its files.
 */
function lazyView(name: ViewName, load: () => Promise<ComponentType>): LazyView {
  const useView = lazy(load);
  const what = `the view "${views[name]}"`;
  const Component = () => {
    const { code: Loaded, hasFailed } = useView();
    if (Loaded !== null) return <Loaded />;
    if (!hasFailed) return <Loading what={what} />;
    return <Failure problem={new Error(`The page cannot load ${what}.`)} onRetry={() => location.reload()} />;
  };
  return { Component, load };
}

const lazyViews: Readonly<Record<ViewName, LazyView>> = {
  "": lazyView("", async () => (await import("../overview/view.tsx")).OverviewView),
  keys: lazyView("keys", async () => (await import("../keys/view.tsx")).KeysView),
  policies: lazyView("policies", async () => (await import("../policies/view.tsx")).PoliciesView),
  advisor: lazyView("advisor", async () => (await import("../advisor/view.tsx")).AdvisorView),
  live: lazyView("live", async () => (await import("../live/view.tsx")).LiveView),
  denied: lazyView("denied", async () => (await import("../denied/view.tsx")).DeniedView),
  audit: lazyView("audit", async () => (await import("../audit/view.tsx")).AuditView),
  playground: lazyView("playground", async () => (await import("../../playground/view.tsx")).PlaygroundView),
};

/** Long enough for the first view to load its numbers. */
const otherViewsAfterMs = 1_000;

/** Loads the other views of an operator, so that they open at once, even without a connection. */
function loadOperatorViews(): void {
  for (const [name, { load }] of Object.entries(lazyViews)) {
    if (name !== "playground") load().catch(() => {});
  }
}

/** Starts before the session is known. A failure appears when the view is shown. */
export const loadFirstView = (): void => {
  const { view } = route.value;
  if (view !== null) lazyViews[view].load().catch(() => {});
};

export function App() {
  const { view } = route.value;
  const isPublic = isPublicView.value;
  const { value } = session;
  const title = view === null ? "Page not found" : views[view];
  useEffect(() => {
    document.title = `${title} – Headgate`;
  }, [title]);
  const isSignedIn = value.kind === "signed-in";
  useEffect(() => {
    if (!isPublic && session.peek().kind === "visitor") void startSession({ isPublic });
  }, [isPublic]);
  useEffect(() => {
    if (!isSignedIn || isPublic) return undefined;
    const timer = setTimeout(loadOperatorViews, otherViewsAfterMs);
    const stop = followChanges(announceChanges);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [isSignedIn, isPublic]);
  if (!isPublic && !isSignedIn) {
    if (value.kind !== "signed-out") return <Loading what="the console" />;
    return <SignIn key={value.problem} problem={value.problem} />;
  }
  return (
    <>
      <a class="skip" href="#view">
        Skip to the content
      </a>
      <Header />
      {isSignedIn && <Banner />}
      <main id="view" tabIndex={-1} class={staleSinceMs.value === null ? "" : "stale"}>
        <View />
      </main>
      <Toasts />
    </>
  );
}

function View() {
  const { view } = route.value;
  const Component = view === null ? NotFound : lazyViews[view].Component;
  return <Component />;
}

const NotFound = () => (
  <section>
    <h1>Page not found</h1>
    <p>
      The console has no page at this address. Go to the <a href={hrefOf("")}>overview</a>.
    </p>
  </section>
);

function Header() {
  const { value: own } = operator;
  return (
    <header class="top">
      <span class="product">Headgate</span>
      <nav aria-label="Views">
        {Object.entries(views).map(([name, label]) => (
          <a key={name} href={`./${name}`} {...(route.value.view === name && { "aria-current": "page" as const })}>
            {label}
          </a>
        ))}
      </nav>
      {own === null ? (
        <a class="operator" href="./">
          Sign in
        </a>
      ) : (
        <span class="operator">
          {may("reveal") && <PlainKeysSwitch />}
          {own.name}
          {own.via === "token" && (
            <button type="button" class="quiet" onClick={signOut}>
              Sign out
            </button>
          )}
        </span>
      )}
    </header>
  );
}

/** One switch for the lists of all views. */
const PlainKeysSwitch = () => (
  <label title="The audit log records each key that is shown, with your name.">
    <input
      type="checkbox"
      checked={showsPlainKeys.value}
      onChange={({ currentTarget: { checked } }) => showPlainKeys(checked)}
    />{" "}
    Plain keys
  </label>
);

/** Warns of old numbers and of refused credentials. The content of forms is kept. */
const Banner = () => (
  <div class="banner" role="status" hidden={isConnected.value && refusal.value === null && staleness.value === null}>
    <Warning />
  </div>
);

function Warning() {
  const at = staleSinceMs.value === null ? "" : timeText(staleSinceMs.value);
  if (!isConnected.value) {
    return (
      <>
        No answer from {location.host} since {at}. The numbers on this page are from {at}. Nothing you typed is lost.
      </>
    );
  }
  if (refusal.value === null) {
    if (staleness.value === null) return null;
    return (
      <>
        The page shows the last answers received, from {at}, because reading again failed: {staleness.value.message}
      </>
    );
  }
  const isToken = tokenOfTab.value !== null;
  return (
    <>
      {isToken && "The token is not accepted any more: "}
      {refusal.value.message}{" "}
      <button type="button" onClick={isToken ? signOut : () => location.reload()}>
        Sign in again
      </button>
    </>
  );
}

function SignIn({ problem: first }: { readonly problem: string | null }) {
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const { run, isRunning, problem: last } = useAction(() => signIn(token));
  const problem = last?.message ?? (isRunning ? null : first);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    void run();
  };
  return (
    <main class="sign-in">
      <h1>Headgate console</h1>
      <form onSubmit={submit}>
        <label for="token">Admin token</label>
        <input
          ref={field}
          id="token"
          value={token}
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
          type="password"
          autocomplete="off"
          required
          aria-describedby="token-help token-problem"
          aria-invalid={problem !== null}
        />
        <p id="token-problem" class="problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="primary" disabled={isRunning}>
          Sign in
        </button>
        <p id="token-help" class="hint">
          A token of the secret ADMIN_TOKENS. It stays in this tab, and in tabs that you open from its links, until you
          close them. In local runs, <code>npm start</code> prints a link that signs you in.
        </p>
      </form>
      <p>
        The <a href="./playground">playground</a> needs no token.
      </p>
    </main>
  );
}

function announceChanges(changes: readonly EntryGroup[]): void {
  for (const group of changes.toReversed()) {
    const [{ actor, action }] = group;
    if (actor === operator.value?.name || action === "reveal") continue;
    showToast({ text: `${actor} ${groupText(group)}`, kind: "news" });
  }
}
