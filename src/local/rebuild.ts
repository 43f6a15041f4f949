/** Failed builds of the development server. */

/**
 * Whether a failed build is one that the watcher of an existing bundle began. When wrangler replaces a bundle, it deletes
 * the bundle's folder before it stops that watcher, whose failure says nothing about the new bundle.
 */
export const isRebuild = ({ reason }: { readonly reason: string }): boolean =>
  reason === "Failed to rebuild the Worker";
