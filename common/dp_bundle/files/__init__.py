"""Files and folders that are whole or absent: new ones, a bundle's members, who may write them, and renaming."""
