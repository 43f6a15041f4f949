/** The address of what is shown: a view, and its parameters in the query. Every state worth sharing is in it. */
import { computed, signal } from "@preact/signals";
import { queryText } from "../api/client.ts";

/** The views by the last segment of their path, in the order of the navigation. */
export const views = {
  "": "Overview",
  keys: "Keys",
  policies: "Policies",
  advisor: "Advisor",
  live: "Live",
  denied: "Denied",
  audit: "Audit",
  playground: "Playground",
} as const;

export type ViewName = keyof typeof views;

interface Route {
  /** Null for a path without a view. */
  readonly view: ViewName | null;
  readonly query: URLSearchParams;
}

export type Query = Parameters<typeof queryText>[0];

const isView = (name: string): name is ViewName => Object.hasOwn(views, name);

export const route = signal<Route>(readRoute());

/** Whether the view needs no operator. */
export const isPublicView = computed(() => route.value.view === "playground");

function readRoute(): Route {
  const name = location.pathname.slice(location.pathname.lastIndexOf("/") + 1);
  return { view: isView(name) ? name : null, query: new URLSearchParams(location.search) };
}

/** Relative to the path of the console. */
export const hrefOf = (view: ViewName, query: Query = {}): string => `./${view}${queryText(query)}`;

export const navigate = (view: ViewName, query: Query = {}): void => follow(hrefOf(view, query));

/** Opens an address that `hrefOf` has returned. */
export function follow(href: string): void {
  history.pushState(null, "", href);
  route.value = readRoute();
}

/** Changes parameters of the current view without a new entry in the history. */
export function replaceQuery(changed: Query): void {
  const { view, query } = route.value;
  history.replaceState(null, "", hrefOf(view ?? "", { ...Object.fromEntries(query), ...changed }));
  route.value = readRoute();
}

/**
 * Changes the whole query of the current view, for views with repeated parameters. Works on the static page of the playground,
 * also from a file.
 */
export function changeSearch(search: string, { isNewEntry }: { readonly isNewEntry: boolean }): void {
  const url = `${location.pathname}${search === "" ? "" : `?${search}`}`;
  if (isNewEntry) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  route.value = readRoute();
}

/**
 * Follows links of the console without loading the page again.
 * @param isCopied whether a new tab needs a copy of the session of this one
 */
export function followLinks(isCopied: () => boolean = () => false): void {
  addEventListener("popstate", () => {
    route.value = readRoute();
  });
  document.addEventListener("click", (event) => {
    const link = followedLink(event);
    if (link === null || event.altKey) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey) {
      if (isCopied()) openTab(event, link);
      return;
    }
    event.preventDefault();
    if (link.href !== location.href) history.pushState(null, "", link.href);
    route.value = readRoute();
  });
  document.addEventListener("auxclick", (event) => {
    const link = event.button === middleButton ? followedLink(event) : null;
    if (link !== null && isCopied()) openTab(event, link);
  });
}

const middleButton = 1;

/** The link of a click that the browser would follow within the console, in this tab or in a new one. */
function followedLink(event: MouseEvent): HTMLAnchorElement | null {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (event.defaultPrevented || !(link instanceof HTMLAnchorElement)) return null;
  return link.target !== "" || link.hasAttribute("download") || !isInConsole(link) ? null : link;
}

/**
 * Browsers copy the session storage, which has the token, only to a tab with an opener, and a link that is opened with a key
 * has none. The token leaves neither the browser nor the web origin.
 */
function openTab(event: MouseEvent, link: HTMLAnchorElement): void {
  event.preventDefault();
  open(link.href, "_blank");
}

/** A link to a part of the shown page has only a fragment, and is left to the browser. */
const isInConsole = ({ origin, pathname, hash }: HTMLAnchorElement): boolean =>
  origin === location.origin &&
  hash === "" &&
  folderOf(pathname) === folderOf(location.pathname) &&
  isView(pathname.slice(pathname.lastIndexOf("/") + 1));

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);
