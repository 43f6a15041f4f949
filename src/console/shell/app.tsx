/** The frame of all views: navigation, the state of the connection, messages. */
import { type ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { isConnected, refusal, token } from "../api/client.ts";
import { followChanges } from "../api/changes.ts";
import { Loading } from "../parts/notice.tsx";
import { announceChanges } from "./announce-changes.ts";
import { lazyView } from "./lazy-view.tsx";
import { hrefOf, route, type ViewName, views } from "./route.ts";
import { session, signOut } from "./session.ts";
import { SignIn } from "./sign-in.tsx";
import { Toasts } from "./toasts.tsx";

const loaders: Readonly<Record<ViewName, () => Promise<ComponentType>>> = {
  "": async () => (await import("../overview/view.tsx")).OverviewView,
  keys: async () => (await import("../keys/view.tsx")).KeysView,
  policies: async () => (await import("../policies/view.tsx")).PoliciesView,
  live: async () => (await import("../live/view.tsx")).LiveView,
  audit: async () => (await import("../audit/view.tsx")).AuditView,
  playground: async () => (await import("../playground/view.tsx")).PlaygroundView,
};

const lazyViewOf = (name: ViewName): ComponentType =>
  lazyView(`the view "${views[name]}"`, loaders[name]);

const components: Readonly<Record<ViewName, ComponentType>> = {
  "": lazyViewOf(""),
  keys: lazyViewOf("keys"),
  policies: lazyViewOf("policies"),
  live: lazyViewOf("live"),
  audit: lazyViewOf("audit"),
  playground: lazyViewOf("playground"),
};

/** Long enough for the first view to load its numbers. */
const otherViewsAfterMs = 1_000;

/** Loads the other views of an operator, so that they open at once, even without a connection. */
function loadOperatorViews(): void {
  for (const [name, load] of Object.entries(loaders)) {
    if (name !== "playground") load().catch(() => {});
  }
}

/** Begins before the session is known. A failure is shown when the view is. */
export const loadFirstView = (): void => {
  const { view } = route.value;
  if (view !== null) loaders[view]().catch(() => {});
};

export function App() {
  const { view } = route.value;
  const isPublic = view === "playground";
  const { value } = session;
  const title = view === null ? "Page not found" : views[view];
  useEffect(() => {
    document.title = `${title} – Headgate`;
  }, [title]);
  const isSignedIn = value.kind === "signed-in";
  useEffect(() => {
    if (!isSignedIn) return undefined;
    const timer = setTimeout(loadOperatorViews, otherViewsAfterMs);
    const stop = followChanges(announceChanges);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [isSignedIn]);
  if (!isPublic && value.kind === "checking") return <Loading what="the console" />;
  if (!isPublic && value.kind === "signed-out") return <SignIn problem={value.problem} />;
  return (
    <>
      <a class="skip" href="#view">
        Skip to the content
      </a>
      <Header />
      {isSignedIn && <Banner />}
      <main id="view" tabIndex={-1}>
        <View />
      </main>
      <Toasts />
    </>
  );
}

function View() {
  const { view } = route.value;
  const Component = view === null ? NotFound : components[view];
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
  const { value } = session;
  return (
    <header class="top">
      <span class="product">Headgate</span>
      <nav aria-label="Views">
        {Object.entries(views).map(([name, label]) => (
          <a
            key={name}
            href={`./${name}`}
            {...(route.value.view === name && { "aria-current": "page" as const })}
          >
            {label}
          </a>
        ))}
      </nav>
      {value.kind === "signed-in" ? (
        <span class="operator">
          {value.operator.name}
          {value.operator.via === "token" && (
            <button type="button" class="quiet" onClick={signOut}>
              Sign out
            </button>
          )}
        </span>
      ) : (
        <a class="operator" href="./">
          Sign in
        </a>
      )}
    </header>
  );
}

/** Warns of old numbers and of refused credentials. Forms stay as they are. */
function Banner() {
  const isRefused = refusal.value !== null;
  const isOffline = !isConnected.value;
  const isToken = token.value !== null;
  return (
    <div class="banner" role="status" hidden={!isRefused && !isOffline}>
      {isOffline &&
        "No connection. The numbers are the last ones received; nothing you typed is lost."}
      {!isOffline && isRefused && (
        <>
          {isToken && "The token is not accepted any more: "}
          {refusal.value?.message}{" "}
          <button type="button" onClick={isToken ? signOut : () => location.reload()}>
            Sign in again
          </button>
        </>
      )}
    </div>
  );
}
